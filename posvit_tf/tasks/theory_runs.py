"""What the theory's tasks share: their fields, a run for each seed, and what is written of all."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from ml_collections import ConfigDict

from posvit_tf.fields import Field
from posvit_tf.theory.settings import FIELDS, from_config, name_of
from posvit_tf.training import logbook, run_files
from posvit_tf.training.fields import SEED

R = TypeVar("R")
SEEDS = {
    "seed": SEED._replace(doc="the first one"),
    "seeds": Field(5, "how many, one after the other", least=1),
}


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`: the seeds and the numbers of a `Setting`."""
    return {**SEEDS, **FIELDS}


def check(config: ConfigDict) -> None:
    """As `task.Task`: the numbers fit together."""
    from_config(config)


def seeds(config: ConfigDict) -> range:
    """Those of a config."""
    return range(config.seed, config.seed + config.seeds)


def each_seed(
    config: ConfigDict,
    workdir: Path,
    run: Callable[[int], R],
    lines: Callable[[R], Iterable[dict]],
    said: Callable[[R], str],
) -> list[R]:
    """Runs each seed; its lines go to metrics.jsonl, and what is said of it to the screen."""
    from posvit_tf.training.board import Board

    log = logbook.Logbook(workdir, update=-1, board=Board)
    found = []
    for seed in seeds(config):
        found.append(run(seed))
        for line in lines(found[-1]):
            log.write(split=f"seed_{seed}", **line)
        print(f"seed {seed}: {said(found[-1])}", flush=True)
    return found


def write_result(config: ConfigDict, workdir: Path, **found: object) -> dict:
    """Writes result.json; returns its content."""
    result = {
        "task": config.task,
        "config": config.name,
        "setting": name_of(from_config(config)),
        "seeds": list(seeds(config)),
        **found,
    }
    run_files.write_json(workdir / "result.json", result)
    return result


def page(workdir: Path) -> Path:
    """As `task.Task`."""
    from posvit_tf.pages import plain

    return plain.write(workdir)

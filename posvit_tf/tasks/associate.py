"""Train the simplified ViT on spatially structured data and check which sets it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from posvit_tf.analysis.seeds import over_seeds, told
from posvit_tf.fields import Field
from posvit_tf.tasks import theory_runs
from posvit_tf.tasks.theory_runs import check, page
from posvit_tf.theory.settings import Setting, from_config, name_of
from posvit_tf.training import run_files

if TYPE_CHECKING:
    from posvit_tf.theory.processes import Run

__all__ = ["RESULT_FIELDS", "check", "declared", "page", "run", "tell"]

RESULT_FIELDS = "config captions"
PROCESS = Field(
    "realistic",
    "what is trained, from where, on what risk",
    choices=("realistic", "idealised", "semi_idealised"),
)


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`."""
    return {**theory_runs.declared(config), "process": PROCESS}


def run(config: ConfigDict, workdir: Path) -> dict:
    """As `task.Task`, once a seed; UserError for a risk that is not finite."""
    from posvit_tf.tasks import theory_figures
    from posvit_tf.theory.processes import PROCESSES

    setting = from_config(config)
    theory_figures.describe(setting)
    runs = theory_runs.each_seed(
        config,
        workdir,
        lambda seed: PROCESSES[config.process](setting, seed),
        lambda run: run.trace,
        lambda run: (
            "test error {test_error:.4f}, overlap {overlap:.3f}, cos(v, w*) {cosine:.3f}, "
            "{seconds:.1f} s".format(**run.trace[-1], seconds=run.seconds)
        ),
    )
    return theory_runs.write_result(
        config,
        workdir,
        process=config.process,
        steps=setting.steps,
        **theory_figures.summarise(runs, setting),
        seconds=over_seeds([run.seconds for run in runs]),
        captions=draw(runs[0], setting, workdir / "plots"),
    )


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    print(table(result))
    run_files.tell_files(result, workdir)


def draw(run: Run, setting: Setting, folder: Path) -> dict[str, str]:
    """Draws the first seed's run; returns the caption of each file."""
    from posvit_tf.analysis import theory_plots
    from posvit_tf.data.spatial import grid_shape
    from posvit_tf.theory.baselines import linear_error, set_aware_error
    from posvit_tf.theory.events import events

    folder.mkdir(parents=True, exist_ok=True)
    partition = run.data.partition
    linear = linear_error(setting.D, setting.C, setting.q)
    aware = set_aware_error(setting.D, setting.C, setting.q)
    captions = {
        "attention.png": theory_plots.found_and_sorted(run.A, partition, folder / "attention.png"),
        "position.png": theory_plots.position_row(
            run.A, partition, grid_shape(setting.D), folder / "position.png"
        ),
        "traces.png": theory_plots.traces(
            run.trace, events(run.trace, linear), linear, aware, folder / "traces.png"
        ),
    }
    if name_of(setting) == "figure4":
        captions["figure4.png"] = theory_plots.figure4(
            run.trace, run.A, partition, linear, aware, folder / "figure4.png"
        )
    return captions


def table(found: dict) -> str:
    """The result for a person, a line a figure."""
    overlap = found["association"]
    rows = {
        "test error": told(found["test_error"]),
        "best linear rule's error": f"{found['linear_error']['mean']:.4f}",
        "set-aware rule's error": f"{found['set_aware_error']['mean']:.4f}",
        "association exact": f"{overlap['exact']:.0%} of seeds",
        "overlap": f"{told(overlap['overlap'])}  chance {overlap['chance']:.3f}",
        "cos(v, w*)": told(found["cosine"]),
        "t1, a linear rule": told(found["events"]["t1"]),
        "t2, sets learned": told(found["events"]["t2"]),
        "t3, risk gone": told(found["events"]["t3"]),
    }
    return "\n".join(f"  {name:26}{value}" for name, value in rows.items())

"""The runs of a sweep, each a `posvit` in a process of its own.

Imports no TensorFlow: a sweep only waits, and leaves memory and devices to its runs.
"""

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from posvit_tf.config import load
from posvit_tf.errors import UserError
from posvit_tf.training import logbook, run_files
from posvit_tf.training.interrupt import Interrupt, command_to_go_on

PACKAGE = Path(__file__).parents[2]  # where the runs, too, import this package from
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of Linux's prctl


class Run(NamedTuple):
    """A cell of a sweep with one seed."""

    cell: dict  # of config.cells
    seed: int
    config: ConfigDict
    flags: tuple[str, ...]  # of posvit
    workdir: Path

    @property
    def name(self) -> str:
        """For people."""
        return f"{cell_name(self.cell)}, seed {self.seed}"

    def result(self) -> dict | None:
        """Its result.json, None where it is not finished."""
        return run_files.finished(self.workdir, self.config)

    def progress(self) -> tuple[float, float]:
        """The share of its training that is done, and the seconds it took."""
        lines = logbook.read_lines(self.workdir / "metrics.jsonl")
        if not lines:
            return 0.0, 0.0
        train, last = self.config.train, lines[-1]
        if train.steps:
            return last["step"] / train.steps, last["seconds"]
        begun = last["epoch"] - (last["split"] == "train")  # an epoch ends with its evaluation
        return begun / max(train.epochs, 1), last["seconds"]


def cell_name(cell: dict) -> str:
    """{"model": "vit", "cell side": 4} -> "model vit, cell side 4"."""
    return ", ".join(f"{axis} {value}" for axis, value in cell["axes"].items())


def expand(config: ConfigDict, workdir: Path) -> list[Run]:
    """Every run of a sweep, seed by seed, so that early runs already compare all cells.

    What a cell's command sets wins over the sweep's overrides.

    Raises:
        UserError: the config of a cell is refused, or trains nothing.
    """
    runs = []
    for seed in range(config.seed, config.seed + config.seeds):
        for cell in config.cells:
            name, *own = shlex.split(cell["command"])
            overrides = [*shlex.split(config.overrides), *own, f"seed={seed}"]
            try:
                loaded = load(name, overrides)
            except UserError as error:
                raise UserError(f"{cell_name(cell)}: {error}") from None
            if loaded.task != "classify":
                raise UserError(
                    f"{cell_name(cell)}: {name} trains no classifier; name one that does"
                )
            folder = "_".join(re.sub(r"[^\w.=-]+", "-", str(v)) for v in cell["axes"].values())
            place = workdir / "runs" / folder / f"seed_{seed}"
            flags = (
                f"--config={name}",
                *(f"--config.{o}" for o in overrides),
                f"--workdir={place}",
            )
            runs.append(Run(cell, seed, loaded, flags, place))
    return runs


def execute(runs: list[Run], workers: int, workdir: Path) -> None:
    """Runs those that are not finished, `workers` at once, and tells how far the whole is.

    The first failure stops the sweep: what is wrong with one run is mostly wrong with all.

    Raises:
        UserError: a run failed; the others were stopped and saved.
        SystemExit: 130 after Ctrl-C, 143 after SIGTERM, with the runs saved.
    """
    waiting = deque(run for run in runs if run.result() is None)
    print(
        f"{len(runs)} runs, {len(runs) - len(waiting)} finished before; {workers} at once",
        flush=True,
    )
    places = [str(PACKAGE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    if workers > 1:
        environment.setdefault("TF_NUM_INTRAOP_THREADS", str(threads(workers)))
    working: list[tuple[Run, subprocess.Popen]] = []
    failure, stopped, told = "", False, time.monotonic()
    with Interrupt() as interrupt:
        while working or (waiting and not (failure or interrupt.asked)):
            if not (failure or interrupt.asked):
                while waiting and len(working) < workers:
                    run = waiting.popleft()
                    working.append((run, start(run, environment)))
            elif not stopped:
                stopped = True
                for _, process in working:
                    process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            for run, process in tuple(working):
                if process.poll() is None:
                    continue
                working.remove((run, process))
                result = run.result()
                if result is not None:
                    accuracy = f"test accuracy {result['test']['accuracy']:.4f}"
                    print(f"{run.name}: {accuracy}; {standing(runs, workers)}", flush=True)
                elif not (failure or interrupt.asked):
                    failure = f"{run.name} failed ({reason(run, process.returncode)})"
            if time.monotonic() - told >= logbook.NARRATE_SECONDS:
                told = time.monotonic()
                names = "; ".join(f"{run.name} ({run.progress()[0]:.0%})" for run, _ in working)
                print(f"{standing(runs, workers)}; at work: {names}", flush=True)
    if failure:
        raise UserError(f"{failure}; mend that, and the same command goes on with the other runs")
    if any(run.result() is None for run in runs):
        print(f"{standing(runs, workers)}; go on with: {command_to_go_on(workdir)}", flush=True)
        raise SystemExit(interrupt.asked)


def threads(workers: int) -> int:
    """The cores of this machine for each of so many processes."""
    return max(os.cpu_count() // workers, 1)


def start(run: Run, environment: dict[str, str]) -> subprocess.Popen:
    """Starts a run; what it prints goes to output.txt in its workdir.

    A group of its own: Ctrl-C reaches the sweep alone, which asks the run once to save.
    """
    run.workdir.mkdir(parents=True, exist_ok=True)
    with open(run.workdir / "output.txt", "a") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "posvit_tf", *run.flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,
            preexec_fn=end_with_the_sweep if sys.platform == "linux" else None,
        )


def end_with_the_sweep() -> None:
    """A killed sweep must not leave a run behind that would hold its workdir against the next."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def reason(run: Run, code: int) -> str:
    """The exit code, and the last line that the run printed."""
    output = run.workdir / "output.txt"
    lines = output.read_text(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    status = f"signal {-code}, out of memory?" if code == -signal.SIGKILL else f"exit code {code}"
    return f"{status}; {output} ends: {last}"


def standing(runs: Iterable[Run], workers: int) -> str:
    """How many runs are done, and when the others may be, from the pace of each cell so far."""
    finished, left, paces = 0, [], {}
    for run in runs:
        share, seconds = run.progress()
        if share:
            paces.setdefault(cell_name(run.cell), []).append(seconds / share)
        if run.result() is None:
            left.append((cell_name(run.cell), 1 - share))
        else:
            finished += 1
    known = {name: sum(pace) / len(pace) for name, pace in paces.items()}
    text = f"{finished} of {finished + len(left)} runs done"
    if not known or not left:
        return text
    usual = sum(known.values()) / len(known)
    seconds = sum(part * known.get(name, usual) for name, part in left)
    return f"{text}, ETA {logbook.duration(seconds / min(workers, len(left)))}"

"""Fair timing: contestants in turns round by round, each number of cores in a process of its own.

A ratio is the median over rounds of (time of the one / time of the other) within a round, so that
what slows the machine for a while slows both.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posvit_tf.training import run_files


class Times(NamedTuple):
    """Seconds a call, one number a round."""

    cpu: np.ndarray  # (rounds,), of all threads
    wall: np.ndarray  # (rounds,)


def interleave(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Calls all contestants in each round, in an order that changes; two calls before warm each up.

    Args:
        contestants: name -> a call that returns only when its work is done.
        rounds: how often each is timed.
    """
    for call in contestants.values():
        call()
        call()
    taken = {name: [] for name in contestants}
    names, order = list(contestants), random.Random(0)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            began = time.process_time(), time.perf_counter()
            contestants[name]()
            ended = time.process_time(), time.perf_counter()
            taken[name].append(np.subtract(ended, began))
    return {name: Times(*np.transpose(seconds)) for name, seconds in taken.items()}


def ratio(times: dict[str, Times], one: str, other: str, clock: str = "cpu") -> float:
    """Median over the rounds of one's time by the other's."""
    return float(np.median(getattr(times[one], clock) / getattr(times[other], clock)))


def spread(seconds: np.ndarray) -> str:
    """`median [quartiles]` in ms."""
    low, middle, high = 1e3 * np.percentile(seconds, [25, 50, 75])
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def machine() -> str:
    """Processor, cores, load and versions, for the head of a table."""
    # Neither is imported: which comes first is `use_cores`'s to say.
    versions = f"TensorFlow {version('tensorflow')}, PyTorch "
    try:
        versions += version("torch")
    except PackageNotFoundError:
        versions += "not installed: its columns are missing"
    return f"{run_files.machine()}; {versions}"


def arguments(doc: str, *more: str) -> argparse.Namespace:
    """The flags of a benchmark: --json, --rounds, --cores and switches named by `more`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the ratios to this file")
    parser.add_argument("--rounds", type=int, default=15, help="times that each is timed")
    parser.add_argument("--cores", type=int, default=0, help="only on so many cores")
    for name in more:
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def use_cores(count: int) -> None:
    """Keeps this process and its TensorFlow and PyTorch to so many cores; before either starts."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    try:
        # With it comes Triton, in PyTorch's CUDA builds, which ends the process if TensorFlow is there first.
        import torch._dynamo

        torch.set_num_threads(count)
    except ImportError:
        pass
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)


def on_one_core_and_on_all(
    module: str, doc: str, run: Callable[[int, int, bool], dict[str, float]]
) -> None:
    """The whole of `python -m module`: run(cores, rounds, full) on one core, then on all; writes --json.

    Each number of cores has a process of its own, which comes back here with --cores.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    flags = arguments(doc, "full")
    if flags.cores:
        write(flags.json, run(flags.cores, flags.rounds, flags.full))
        return
    print(machine(), flush=True)
    ratios = {}
    for cores in sorted({1, os.cpu_count()}):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [sys.executable, "-m", module, f"--cores={cores}", f"--json={file.name}"]
            command += [f"--rounds={flags.rounds}", *["--full"] * flags.full]
            subprocess.run(command, check=True)
            ratios |= json.loads(Path(file.name).read_text())["ratios"]
    write(flags.json, ratios)


def write(path: str | None, ratios: dict[str, float]) -> None:
    """{"ratios": ...} as JSON, where a path is given."""
    if path:
        Path(path).write_text(json.dumps({"ratios": ratios}, indent=2) + "\n")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Prints a Markdown table."""
    head = list(head)
    print("|", " | ".join(head), "|")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("|", " | ".join(map(str, row)), "|", flush=True)

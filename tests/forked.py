"""posvit in processes of their own that need not import TensorFlow again, so that many can be killed."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posvit_tf import cli

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["posvit_tf.tasks.tensorflow_run", "posvit_tf.pages.run"])


def work(flags: list[str], environment: dict[str, str], output: Path) -> None:
    """What the process does: stdout and stderr go to a file, the exit code is posvit's."""
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    os.environ.update(environment)
    sys.argv = ["posvit", *flags]
    sys.exit(cli.main(sys.argv))


class Run:
    """A running posvit.

    Args:
        flags: of posvit, with --workdir among them.
        output: the file for what it prints.
        environment: variables to set.
    """

    def __init__(self, flags: list[str], output: Path, **environment: str):
        self.output = output
        self.process = processes.Process(target=work, args=(flags, environment, output))
        self.process.start()

    def wait(self, seconds: float = 300) -> int:
        """The exit code, minus the signal where one ended it."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"still running: {self.text()}"
        return self.process.exitcode

    def signal(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self.process.pid, number)

    def text(self) -> str:
        """What it printed so far."""
        return self.output.read_text() if self.output.exists() else ""


def saved(workdir: Path) -> list[str]:
    """Names of the checkpoints of a workdir, the newest last."""
    return sorted(path.name for path in (workdir / "checkpoints").glob("update_*.npz"))


def until(condition: Callable[[], bool], run: Run, seconds: float = 120) -> None:
    """Waits for a condition while the run is alive."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert run.process.is_alive() and time.monotonic() < deadline, run.text()
        time.sleep(0.002)

"""Being told to stop, and how to go on. Imports no TensorFlow: a sweep only waits for its runs."""

import os
import shlex
import signal
from pathlib import Path

from posvit_tf.training.run_files import command_line


class Interrupt:
    """Ctrl-C or SIGTERM, the notice of a preemption, sets `asked`; a second one ends the process at once.

    `asked` is the exit code to come, 130 or 143, and 0 until then.
    """

    asked = 0

    def __enter__(self):
        self.previous = {
            number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def handle(self, number: int, _):
        if self.asked:
            os._exit(128 + number)
        self.asked = 128 + number
        what = "interrupted" if number == signal.SIGINT else "told to stop"
        print(f"\n{what}: saving after this update; a second time exits at once", flush=True)


def command_to_go_on(workdir: Path) -> str:
    """This process's command line, with the workdir that it may have chosen itself."""
    again = command_line()
    if "--workdir" not in again:
        again += f" --workdir={shlex.quote(str(workdir))}"
    return again

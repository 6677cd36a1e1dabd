"""How far a run is: the lines of metrics.jsonl for programs, one on the screen for people."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posvit_tf.errors import UserError

NARRATE_SECONDS = 30.0  # between progress lines where they cannot overwrite each other


def read_lines(path: Path) -> list[dict]:
    """The lines of a metrics.jsonl, without a last one that a kill cut short.

    Raises:
        UserError: a whole line is not one of a run.
    """
    found = []
    text = path.read_text(errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if line.endswith("\n"):
            try:
                found.append(json.loads(line))
                found[-1]["step"], found[-1]["split"]
            except (ValueError, KeyError, TypeError):
                raise UserError(
                    f"{path}, line {number}, is not a line of a run: delete that line (the checkpoints "
                    "are not touched) and run the same command again"
                ) from None
    return found


class Logbook:
    """metrics.jsonl, and a board that shows its lines.

    Args:
        workdir: of the run.
        update: updates already done; later lines, of a run that was cut off, are dropped, so that
            steps only grow.
        writes: whether this process writes them, or only keeps the lines of its own.
        board: makes, of the workdir, what is called with each line; `board.Board`, or none.
    """

    def __init__(
        self,
        workdir: Path,
        update: int,
        writes: bool = True,
        board: Callable[[Path], Callable[[dict], None]] | None = None,
    ):
        self.lines = []
        self.file = None
        if not writes:
            return
        path = workdir / "metrics.jsonl"
        # The test is evaluated again by whoever finishes the run.
        self.lines = [
            line for line in read_lines(path) if line["step"] <= update and line["split"] != "test"
        ]
        temporary = path.with_name(".metrics.jsonl.tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        os.replace(temporary, path)
        self.file = open(path, "a")
        self.board = board(workdir) if board else None
        for line in self.lines if self.board else ():
            self.board(line)

    def write(self, **line) -> None:
        """Adds one line: step, epoch, split, loss, accuracy, examples, seconds, ...

        Raises:
            UserError: the line cannot be written.
        """
        self.lines.append(line)
        if self.file is None:
            return
        try:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        except OSError as error:
            raise UserError(
                f"cannot write {self.file.name}: {error.strerror}; the checkpoints are kept: "
                "make room and run the same command again"
            ) from error
        if self.board:
            self.board(line)


class Progress:
    """One line that says how far the run is; in a terminal it overwrites itself.

    Args:
        update: updates done before. updates: of the whole run. images: an update takes.
        speaks: whether this process prints.
    """

    def __init__(self, update: int, updates: int, images: int, speaks: bool = True):
        self.speaks = speaks
        self.update, self.updates, self.images = update, updates, images
        self.terminal = sys.stdout.isatty()
        self.time = self.told = time.monotonic()

    def show(self, update: int, epoch: int, figures: dict[str, float]) -> float:
        """Prints the line, with the figures since the last one.

        Returns:
            Images a second since the last call; the first one counts the tracing too.
        """
        now = time.monotonic()
        pace = (update - self.update) / (now - self.time)  # updates a second
        self.update, self.time = update, now
        if self.speaks and (self.terminal or now - self.told >= NARRATE_SECONDS):
            self.told = now
            line = (
                f"update {update}/{self.updates}  epoch {epoch}  {figures_text(figures, '  ')}  "
                f"{pace * self.images:.0f} images/s  "
                f"ETA {duration((self.updates - update) / pace)}"
            )
            print(f"\r{line:<100}" if self.terminal else line, end="" if self.terminal else "\n")
            sys.stdout.flush()
        return pace * self.images

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        if self.speaks:
            print(f"\r{text:<100}" if self.terminal else text, flush=True)


def figures_text(figures: dict[str, float], between: str) -> str:
    """{"loss": 0.5, "top5_accuracy": 1} -> "loss 0.5000, top5 accuracy 1.0000"."""
    return between.join(f"{name.replace('_', ' ')} {v:.4f}" for name, v in figures.items())


def duration(seconds: float) -> str:
    """3725 -> 1:02:05."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

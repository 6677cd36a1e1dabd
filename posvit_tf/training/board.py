"""The TensorBoard files of a run."""

import shutil
from pathlib import Path

import tensorflow as tf

from posvit_tf.errors import UserError


class Board:
    """A curve for each figure of each split; called with a line of metrics.jsonl, it adds a point to each.

    Args:
        workdir: of the run; its old files go.
    """

    def __init__(self, workdir: Path):
        self.folder = workdir / "tensorboard"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.writer = tf.summary.create_file_writer(str(self.folder))

    def __call__(self, line: dict) -> None:
        """Raises UserError where the files cannot be written."""
        try:
            with self.writer.as_default(step=line["step"]):
                for name, value in line.items():
                    if name not in ("step", "split"):
                        tf.summary.scalar(f"{line['split']}/{name}", value)
            self.writer.flush()
        except tf.errors.OpError as error:
            raise UserError(
                f"cannot write {self.folder}: {error.message}; the checkpoints are kept: "
                "make room and run the same command again"
            ) from error

"""This process's place among those of a run on several hosts. Imports no TensorFlow: main asks first."""

import json
import os
from typing import NamedTuple

from ml_collections import ConfigDict

from posvit_tf.errors import UserError

TPU_INSTALL = (
    'pip install "tensorflow==2.20.*" "tensorflow-tpu==2.20.*" '
    "--find-links=https://storage.googleapis.com/libtpu-tf-releases/index.html"
)
INSTALL = (
    "`pip install -e .` for the CPU, then `pip install tensorflow[and-cuda]` for NVIDIA GPUs; "
    f"for a TPU `{TPU_INSTALL}`"
)


class Place(NamedTuple):
    """Which of the `count` processes of a run this one is."""

    index: int
    count: int

    @property
    def chief(self) -> bool:
        """Whether it is the one that writes the workdir."""
        return self.index == 0


def place(config: ConfigDict) -> Place:
    """As TF_CONFIG says or, in a Slurm step of several tasks, Slurm; (0, 1) for a run of one process.

    Only the strategies `auto` and `multiworker` look.

    Raises:
        UserError: TF_CONFIG does not name a cluster of workers and this process among them.
    """
    if config.get("strategy") not in ("auto", "multiworker"):
        return Place(0, 1)
    given = os.environ.get("TF_CONFIG")
    if given:
        try:
            content = json.loads(given)
            (workers,) = (content["cluster"][kind] for kind in content["cluster"] | {"worker": []})
            index = int(content["task"]["index"])
            if content["task"]["type"] != "worker" or not 0 <= index < len(workers):
                raise ValueError("the task is none of the workers")
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"TF_CONFIG={given!r} is not understood ({error}): set it to "
                '{"cluster": {"worker": ["HOST1:PORT", "HOST2:PORT"]}, '
                '"task": {"type": "worker", "index": 0}}, with its own index in each process'
            ) from None
        return Place(index, len(workers))
    return Place(
        int(os.environ.get("SLURM_PROCID", 0)), int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    )

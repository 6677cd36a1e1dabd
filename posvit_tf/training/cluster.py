"""The processes of a run on several hosts, and this one's place. Imports no TensorFlow: main asks first."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
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
            return from_tf_config(json.loads(given))
        except (ValueError, KeyError, TypeError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else error
            raise UserError(
                f"TF_CONFIG={given!r} is not understood ({what}): set it to "
                '{"cluster": {"worker": ["HOST1:PORT", "HOST2:PORT"]}, '
                '"task": {"type": "worker", "index": 0}}, with its own index in each process'
            ) from None
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    index, count = (
        os.environ.get(name, default) for name, default in zip(names, "01", strict=True)
    )
    if not (index.isdecimal() and count.isdecimal() and int(index) < max(int(count), 1)):
        raise UserError(
            f"SLURM_PROCID={index!r} of SLURM_STEP_NUM_TASKS={count!r} is not a task of a Slurm step: "
            "start the run by srun, or use --config.strategy=mirrored"
        )
    return Place(int(index), int(count))


def from_tf_config(content: dict) -> Place:
    """The place that TF_CONFIG's content names.

    Raises:
        ValueError, KeyError, TypeError: it does not name a cluster of workers and one of them.
    """
    cluster, task = content["cluster"], content["task"]
    workers, index = cluster["worker"], int(str(task["index"]))
    addresses = workers if isinstance(workers, list) else []
    if len(cluster) > 1 or task["type"] != "worker":
        raise ValueError("it may name workers only")
    if not addresses or len(set(addresses)) < len(addresses):
        raise ValueError("worker must be a list of different addresses")
    if not all(
        address.rpartition(":")[0] and address.rpartition(":")[2].isdecimal()
        for address in addresses
    ):
        raise ValueError("a worker's address is HOST:PORT")
    if not 0 <= index < len(addresses):
        raise ValueError("the index is none of the workers")
    return Place(index, len(addresses))


class Processes:
    """What the processes of a run agree on; with one process nothing is sent.

    Args:
        place: of this process.
        gather: this process's value -> those of all; each waits for the others. One process needs none.
        part: called when nothing more is asked of the others. One process needs none.
    """

    def __init__(
        self,
        place: Place,
        gather: Callable[[int], Iterable[int]] | None = None,
        part: Callable[[], None] | None = None,
    ):
        self.place, self._gather, self._part = place, gather, part

    def values(self, value: int) -> set[int]:
        """What all processes gave; each waits for the others."""
        return {value} if self.place.count == 1 else set(self._gather(value))

    def alike(self, *content: object) -> bool:
        """Whether all processes gave the same content."""
        digest = hashlib.sha256(repr(content).encode()).hexdigest()
        return len(self.values(int(digest[:15], 16))) == 1

    def part(self) -> None:
        """From now on each goes its own way."""
        if self._part:
            self._part()

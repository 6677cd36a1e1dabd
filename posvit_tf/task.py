"""What a config can run: a module a task, in `posvit_tf.tasks`, imported when it is asked for."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ml_collections import ConfigDict

from posvit_tf.errors import unknown
from posvit_tf.fields import Field

TASKS = {
    "classify": "posvit_tf.tasks.classify",
    "associate": "posvit_tf.tasks.associate",
    "transfer": "posvit_tf.tasks.transfer",
    "gaussian": "posvit_tf.tasks.gaussian",
    "claims": "posvit_tf.tasks.claims",
    "sweep": "posvit_tf.tasks.sweep",
}


class Task(Protocol):
    """What the module of a task holds. Its import, and all but `run` and `page`, need no TensorFlow.

    Attributes:
        RESULT_FIELDS: dotted fields of result.json that `tell` and `page` read, spaces between them.
    """

    RESULT_FIELDS: str

    def declared(self, config: Mapping) -> Mapping[str, Field | Mapping]:
        """The fields that a config of this task has, as far as it is known; a section is a mapping."""

    def check(self, config: ConfigDict) -> None:
        """Raises UserError for fields that do not go together."""

    def run(self, config: ConfigDict, workdir: Path) -> dict:
        """Runs a config, from where its workdir stands; returns the content of its result.json."""

    def tell(self, result: dict, workdir: Path) -> None:
        """Prints what a finished run found, and where it is."""

    def page(self, workdir: Path) -> Path:
        """Writes the report.html of a finished run; returns its path."""


def find(name: str) -> Task:
    """The module of a task.

    Raises:
        UserError: there is none of that name.
    """
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return importlib.import_module(TASKS[name])

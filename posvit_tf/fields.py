"""A field of a config, declared beside the code that reads it. Imports neither NumPy nor Keras."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Field(NamedTuple):
    """One field.

    One that joins later has the default that does what was done without it: the configs of older workdirs
    are completed by it, and their runs go on.

    Attributes:
        default: its value where a config sets none; None: it derives at use.
        doc: what it does, in a line.
        kind: its type, where the default is None.
        choices: all that it may be.
        least, bound: least <= value < bound.
    """

    default: bool | int | float | str | tuple | None
    doc: str
    kind: type | None = None
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    bound: float = math.inf


def flat(section: Mapping, prefix: str = "") -> dict:
    """{"train": {"epochs": 3}} -> {"train.epochs": 3}."""
    fields = {}
    for key, value in section.items():
        name = prefix + key
        fields |= flat(value, f"{name}.") if hasattr(value, "items") else {name: value}
    return fields

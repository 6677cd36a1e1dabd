"""A number over seeds, and how it is told."""

from collections.abc import Sequence

import numpy as np


def over_seeds(values: Sequence[float | None]) -> dict:
    """Mean, standard deviation, least and greatest value over the seeds that have one, and all.

    Args:
        values: one a seed; None for an event that never came.
    """
    per_seed = [None if value is None else float(value) for value in values]
    known = [value for value in per_seed if value is not None]
    figures = (np.mean, np.std, np.min, np.max)
    names = ("mean", "std", "min", "max")
    found = {
        name: float(f(known)) if known else None for name, f in zip(names, figures, strict=True)
    }
    return {**found, "per_seed": per_seed}


def told(found: dict) -> str:
    """`mean +- std  [min, max]` of what `over_seeds` gave, the mean alone of one seed, or `never`."""
    if found["mean"] is None:
        return "never"
    if len(found["per_seed"]) == 1:
        return f"{found['mean']:.4g}"
    never = found["per_seed"].count(None)
    return (
        f"{found['mean']:.4g} +- {found['std']:.2g}  [{found['min']:.4g}, {found['max']:.4g}]"
        + (f"  never in {never}" if never else "")
    )

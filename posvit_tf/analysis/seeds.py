"""A figure over seeds: where it lies, how far it spreads, and how two of them differ seed by seed.

Imports no NumPy, whose import takes longer than telling a result.
"""

import statistics
from collections.abc import Sequence


def over_seeds(values: Sequence[float | None]) -> dict:
    """Mean, standard deviation sqrt(sum (x - mean)^2 / (n - 1)), least and greatest of n values.

    Args:
        values: one a seed; None, which does not count, for what never came.

    Returns:
        {mean, std, min, max, per_seed}: std is None for n = 1, and all but per_seed for n = 0.
    """
    per_seed = [None if value is None else float(value) for value in values]
    known = [value for value in per_seed if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "min": min(known, default=None),
        "max": max(known, default=None),
        "per_seed": per_seed,
    }


def told(found: dict) -> str:
    """`mean +- std  [min, max]` of what `over_seeds` gave, the mean alone of one seed, or `never`."""
    if found["mean"] is None:
        return "never"
    never = found["per_seed"].count(None)
    text = f"{found['mean']:.4g}"
    if found["std"] is not None:
        text += f" +- {found['std']:.2g}  [{found['min']:.4g}, {found['max']:.4g}]"
    return text + (f"  never in {never}" if never else "")


def spread(values: Sequence[float]) -> dict:
    """`over_seeds` with n, the median and the quartiles, interpolated linearly between the values."""
    found = over_seeds(values)
    two = found["per_seed"] * 2 if len(values) == 1 else found["per_seed"]  # a quantile needs two
    q1, median, q3 = statistics.quantiles(two, method="inclusive")
    return {"n": len(values), **found, "median": median, "q1": q1, "q3": q3}


def paired(values: Sequence[float], baseline: Sequence[float]) -> dict:
    """d_s = x_s - b_s, and the 95% confidence interval mean(d) -+ t(.975, n - 1) std(d) / sqrt(n).

    A seed gives both sides the same order of the data, so what it does to both cancels. The interval
    supposes that the differences are normal, which a few seeds cannot show.

    Args:
        values, baseline: one a seed, in the order of the same n seeds.

    Returns:
        As `spread` of the differences, with low and high, the interval's ends (None for n = 1).
    """
    found = spread([value - other for value, other in zip(values, baseline, strict=True)])
    if found["n"] == 1:
        return {**found, "low": None, "high": None}
    from scipy.special import stdtrit

    reach = stdtrit(found["n"] - 1, 0.975) * found["std"] / found["n"] ** 0.5
    return {**found, "low": found["mean"] - reach, "high": found["mean"] + reach}

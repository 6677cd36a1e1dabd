"""A figure over seeds: where it lies, how far it spreads, and how two of them differ seed by seed."""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit


def spread(values: Sequence[float]) -> dict:
    """Mean, sample standard deviation sqrt(sum (x - mean)^2 / (n - 1)), median and quartiles.

    Args:
        values: one a seed, n of them.

    Returns:
        {n, mean, std (None for n = 1), median, q1, q3, per_seed}; quartiles are interpolated
        linearly between the values.
    """
    q1, median, q3 = np.percentile(values, (25, 50, 75))
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "median": float(median),
        "q1": float(q1),
        "q3": float(q3),
        "per_seed": [float(value) for value in values],
    }


def paired(values: Sequence[float], baseline: Sequence[float]) -> dict:
    """d_s = x_s - b_s, and the 95% confidence interval mean(d) -+ t(.975, n - 1) std(d) / sqrt(n).

    A seed gives both sides the same order of the data, so what it does to both cancels. The interval
    supposes that the differences are normal, which a few seeds cannot show.

    Args:
        values, baseline: one a seed, in the order of the same n seeds.

    Returns:
        As `spread` of the differences, with low and high, the interval's ends (None for n = 1).
    """
    found = spread(np.subtract(values, baseline))
    if found["n"] == 1:
        return {**found, "low": None, "high": None}
    reach = stdtrit(found["n"] - 1, 0.975) * found["std"] / found["n"] ** 0.5
    return {**found, "low": found["mean"] - reach, "high": found["mean"] + reach}

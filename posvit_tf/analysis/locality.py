"""How far attention reaches over the patch grid, and how much of that is chance.

A grid is (rows, cols) of patches, N = rows*cols, patches counted row by row. The class token is no
patch: leave its row and column out; rows are scaled here to sum to 1 over the patches.
"""

import numpy as np


def grid_distance(grid: tuple[int, int]) -> np.ndarray:
    """d_ij = |g_i - g_j|, the Euclidean distance (N, N) of two patches, in patches."""
    places = np.indices(grid).reshape(2, -1).T  # (N,2)
    return np.linalg.norm(places[:, None] - places, axis=-1)


def over_patches(maps: np.ndarray) -> np.ndarray:
    """A_ij / sum_k A_ik: rows sum to 1 over the patches alone.

    Args:
        maps: A (..., N, N), no value below 0.

    Returns:
        (..., N, N); a row of zeros (all attention on the class token) becomes uniform.
    """
    a = np.maximum(maps, np.finfo("float32").tiny)
    return a / a.sum(axis=-1, keepdims=True)


def mean_distance(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """d(A) = 1/N sum_ij A_ij d_ij, the mean attention distance in patches.

    Args:
        maps: A (..., N, N); rows are scaled to sum to 1.
        grid: (rows, cols).

    Returns:
        (...). Of a uniform map it is the mean of d_ij over all i and j.
    """
    return (over_patches(maps) * grid_distance(grid)).sum(axis=-1).mean(axis=-1)


def locality_score(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """1 - d(A) / d(uniform): 1 where each patch sees only itself, below 0 where it looks far away.

    0 is what a uniform map has, and what any map has on average when the patches that are looked at
    are shuffled.

    Args:
        maps: A (..., N, N); rows are scaled to sum to 1.
        grid: (rows, cols), of more than one patch.

    Returns:
        (...), at most 1.
    """
    return 1 - mean_distance(maps, grid) / grid_distance(grid).mean()


def chance(
    maps: np.ndarray, grid: tuple[int, int], rng: np.random.Generator, draws: int = 99
) -> np.ndarray:
    """`locality_score` of A_(pi(i), pi(j)) for random orders pi of the patches.

    Rows and columns move together, so that what a patch gives itself stays: on average the scores
    are (N a - 1) / (N - 1), a the mean of A_ii, which is what a map scores without any regard for
    place. Where A has none, its own score exceeds all of these with probability 1 / (draws + 1).

    Args:
        maps: A (..., N, N); rows are scaled to sum to 1.
        grid: (rows, cols), of more than one patch.
        rng: draws the orders, the same for all maps. draws: how many.

    Returns:
        (draws, ...).
    """
    a = over_patches(maps)
    near = 1 - grid_distance(grid) / grid_distance(grid).mean()  # (N,N)
    orders = [rng.permutation(len(near)) for _ in range(draws)]
    scores = [(a * near[np.ix_(order, order)]).sum(axis=-1).mean(axis=-1) for order in orders]
    return np.stack(scores)

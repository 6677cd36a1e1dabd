"""What position tables and attention maps say about the patch grid, in numbers.

A grid is (rows, cols) of patches, N = rows*cols, patches counted row by row. The class token is no
patch: leave its row and column out.
"""

import numpy as np

from posvit_tf.analysis.locality import grid_distance


def position_similarity(table: np.ndarray) -> np.ndarray:
    """s_ij = <p_i, p_j> / (|p_i| |p_j|), the cosine similarity (paper, figures 1 and 8).

    Args:
        table: P (N, E).

    Returns:
        (N, N) in [-1, 1]; 0 where a row of P is zero.
    """
    norm = np.linalg.norm(table, axis=-1, keepdims=True)  # (N,1)
    unit = table / np.where(norm, norm, 1.0)
    return np.clip(unit @ unit.T, -1.0, 1.0)


def distance_correlation(
    matrices: np.ndarray, grid: tuple[int, int], shuffles: int = 99, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """r = corr over i != j of (M_ij, -d_ij), beside the largest |r| of the positions shuffled.

    The Mantel test: a shuffle renames the positions, rows and columns together, so it keeps the
    values of M and forgets where they lie. Where M has nothing to do with distance, |r| exceeds
    every shuffle with probability 1 / (shuffles + 1). r > 0: larger values between nearby patches;
    r < 0: between distant ones. Structure that does not follow distance is not seen.

    Args:
        matrices: M (..., N, N).
        grid: (rows, cols).
        shuffles: number of random orders. seed: of these orders.

    Returns:
        r (...) and its chance level (...); both 0 for a constant M.
    """
    rng = np.random.default_rng(seed)
    near = -grid_distance(grid)
    n = len(near)
    other = ~np.eye(n, dtype=bool)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(shuffles))]
    targets = np.stack([near[np.ix_(order, order)][other] for order in orders])  # (S+1,N(N-1))

    def standardised(values):
        values = values.astype("float32")
        mean = values.mean(axis=-1, keepdims=True, dtype="float64")
        centred = values - mean.astype("float32")
        norm = np.linalg.norm(centred, axis=-1, keepdims=True)
        # What rounding leaves of a constant is not structure.
        varies = norm > 1e-5 * np.linalg.norm(values, axis=-1, keepdims=True)
        return np.where(varies, centred / np.where(varies, norm, 1.0), 0.0)

    r = standardised(matrices[..., other]) @ standardised(targets).T  # (...,S+1)
    return r[..., 0], np.abs(r[..., 1:]).max(axis=-1)


def centred_scores(maps: np.ndarray) -> np.ndarray:
    """s_ij - mean_(k != i) s_ik = log A_ij - mean_(k != i) log A_ik, for A the softmax of scores s.

    A softmax drops what a whole row has in common, so this is all that a map holds of its scores.

    Args:
        maps: A (..., N, N), positive.

    Returns:
        (..., N, N); an attention below the least normal float32 counts as that.
    """
    logs = np.log(np.maximum(maps, np.finfo("float32").tiny))
    other = ~np.eye(maps.shape[-1], dtype=bool)
    return logs - logs.mean(axis=-1, where=other, keepdims=True)


def total_variation(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """1/2 mean_i sum_j |A_ij - B_ij|: the share of its attention that a token gives elsewhere in B.

    Args:
        maps, others: A, B (..., N, N), rows sum to 1.

    Returns:
        (...) in [0, 1]: 0 for equal maps, 1 where no token looks at what it looked at.
    """
    return np.abs(maps - others).sum(axis=-1).mean(axis=-1) / 2


def mean_by_offset(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """m(o) = mean of A_(i, i+o) over the patches i with i + o in the grid.

    Offsets go to half the grid: beyond it a few pairs at the borders make the mean.

    Args:
        maps: A (..., N, N).
        grid: (rows, cols).

    Returns:
        (..., 2*(rows//2) + 1, 2*(cols//2) + 1); the centre is the patch itself.
    """
    rows, cols = grid
    row, col = np.indices(grid).reshape(2, -1)  # (N,) each
    up, left = rows // 2, cols // 2
    means = np.empty((*maps.shape[:-2], 2 * up + 1, 2 * left + 1))
    for r, c in np.ndindex(means.shape[-2:]):
        down, right = r - up, c - left
        inside = (row + down >= 0) & (row + down < rows) & (col + right >= 0) & (col + right < cols)
        i = np.flatnonzero(inside)
        means[..., r, c] = maps[..., i, i + down * cols + right].mean(axis=-1)
    return means

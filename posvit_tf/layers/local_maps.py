"""Initial weights whose attention maps are local: each head looks at one cell beside the patch's own.

A shift of the grid is a rotation of sines and cosines, so a query that turns what the key picks is all
that it takes. With x_i the row (or column) of patch i on a grid axis of n cells,

    p_i = [cos w_k x_i, sin w_k x_i]_k,  w_k = pi k / n,  k = 1..K,  K = min(n/2, what a head has room for)
    W_K p_j = p_j,   W_Q p_i = g [a_k cos w_k (x_i + s), a_k sin w_k (x_i + s)]_k,   a_k = 1 - k / (K + 1)
    <W_Q p_i, W_K p_j> = g sum_k a_k cos w_k (x_j - x_i - s)

summed over the two axes: one bump around the cell at shift s from patch i (Fejer's weights a_k leave it
no side lobes). At the border, where that cell is missing, the bump is highest at the cell nearest to it.
"""

import numpy as np

from posvit_tf.errors import UserError

SHARPNESS = 1.5
SHIFTS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


def head_shifts(heads: int, layer: int) -> list[tuple[int, int] | None]:
    """The shift (rows, cols) of each head of a layer (from 0); None: a flat head.

    The last head is flat, unless it is the only one. The others take SHIFTS in turn, and where they are
    fewer or more than SHIFTS, the next layer goes on where this one ends.
    """
    bumps = max(heads - 1, 1)
    turn = (SHIFTS[(layer * bumps + head) % len(SHIFTS)] for head in range(bumps))
    return [*turn, *[None] * (heads - bumps)]


def frequencies(grid: tuple[int, int], head: int) -> list[np.ndarray]:
    """w_k = pi k / n, k = 1..K, for each axis of n cells; none for an axis of one cell.

    Half a period is the whole axis, so no two cells look alike; n/2 of them make a bump about one cell
    wide. A head that has room for fewer starts with a wider bump.

    Args:
        grid: (rows, cols).
        head: numbers a head.

    Raises:
        UserError: a head has no room for one sine and one cosine an axis.
    """
    needed = 2 * sum(n > 1 for n in grid)
    if head < needed:
        raise UserError(
            f"local initial maps on a grid of {grid[0]}x{grid[1]} need {needed} numbers a head, not "
            f"{head}: set model.heads or model.width, or model.initial_maps=random"
        )
    return [np.pi / n * np.arange(1, min(n // 2, head // max(needed, 1)) + 1) for n in grid]


def waves(grid: tuple[int, int], head: int, class_token: bool) -> np.ndarray:
    """p_i = [cos w r_i, sin w r_i, cos w c_i, sin w c_i]: what the first columns of P hold.

    Args:
        grid: (rows, cols) of patches, counted row by row.
        head: numbers a head.
        class_token: whether a zero row for the class token comes first: it scores 0 with every patch,
            which is flat along its row and little beside the bump along its column.

    Returns:
        float32 (rows*cols [+1], C), C <= head.
    """
    places = np.indices(grid).reshape(2, -1, 1)  # (2,N,1)
    angles = [x * w for x, w in zip(places, frequencies(grid, head), strict=True)]  # 2 x (N,K)
    table = np.concatenate([f(a) for a in angles for f in (np.cos, np.sin)], axis=1)  # (N,C)
    return np.pad(table, ((int(class_token), 0), (0, 0))).astype("float32")


def projections(
    grid: tuple[int, int], head: int, shifts: list[tuple[int, int] | None]
) -> tuple[np.ndarray, np.ndarray]:
    """W_Q and W_K such that softmax((p W_Q)(p W_K)^T / sqrt(head)) is a bump at each head's shift.

    g is such that a neighbour of the bump's top has exp(-SHARPNESS) of its attention.

    Args:
        grid: (rows, cols).
        head: numbers a head.
        shifts: (rows, cols) a head, in cells; None: W_Q is 0 and the head's map flat.

    Returns:
        W_Q, W_K: float32 (C, H, head), for the C columns of `waves`.
    """
    axes = frequencies(grid, head)
    columns = 2 * sum(len(w) for w in axes)
    key = np.tile(np.eye(columns, head)[:, None], (1, len(shifts), 1))  # (C,H,dh)
    query = np.zeros_like(key)
    for h, shift in enumerate(shifts):
        if shift is None:
            continue
        start = 0
        for w, s in zip(axes, shift, strict=True):
            if not len(w):
                continue
            a = 1 - np.arange(1, len(w) + 1) / (len(w) + 1)  # (K,)
            gain = SHARPNESS / np.sum(a * (1 - np.cos(w))) * head**0.5
            cos, sin = (np.diag(gain * a * f(w * s)) for f in (np.cos, np.sin))  # (K,K) each
            end = start + 2 * len(w)
            query[start:end, h, start:end] = np.block([[cos, sin], [-sin, cos]])
            start = end
    return query.astype("float32"), key.astype("float32")


def scores(
    grid: tuple[int, int], head: int, shifts: list[tuple[int, int] | None], class_token: bool
) -> np.ndarray:
    """s_ij - s_ii, with s = (p W_Q)(p W_K)^T / sqrt(head) of `waves` and `projections`.

    A softmax ignores what a row has in common. So with a diagonal fixed at d, the matrix that holds
    d + s_ij - s_ii gives the very maps of `projections`: the fixed diagonal lies on the bump.

    Returns:
        float32 (H, N, N), N with the class token.
    """
    p = waves(grid, head, class_token)  # (N,C)
    query, key = (np.einsum("nc,chd->hnd", p, w) for w in projections(grid, head, shifts))
    s = query @ key.swapaxes(1, 2) * head**-0.5  # (H,N,N)
    return s - np.diagonal(s, axis1=1, axis2=2)[..., None]


def offset_scores(
    grid: tuple[int, int], head: int, shifts: list[tuple[int, int] | None]
) -> np.ndarray:
    """s_(i - j) of `scores`, before its diagonal is subtracted: what is summed over the axes above.

    Returns:
        float32 (H, 2*rows - 1, 2*cols - 1); the middle is the offset 0.
    """
    found = np.zeros((len(shifts), *(2 * n - 1 for n in grid)))
    for h, shift in enumerate(shifts):
        for axis, (n, w) in enumerate(zip(grid, frequencies(grid, head), strict=True)):
            if shift is None or not len(w):
                continue
            a = 1 - np.arange(1, len(w) + 1) / (len(w) + 1)  # (K,)
            gain = SHARPNESS / np.sum(a * (1 - np.cos(w)))
            offset = np.arange(1 - n, n)  # i - j, (2n-1,)
            bump = gain * np.cos(np.outer(-offset - shift[axis], w)) @ a  # (2n-1,)
            found[h] += bump[:, None] if axis == 0 else bump
    return found.astype("float32")

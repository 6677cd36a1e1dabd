"""One fixed random permutation of the cells of every image, and its inverse for what a ViT learned.

An image of H x W pixels is cut into cells of c x c pixels, and the cells change places, in the same
way for all images of a data set: what is near and what is far is forgotten, and nothing else.
"""

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.errors import UserError


def cell_order(grid: tuple[int, int], cell: int, seed: int) -> np.ndarray:
    """o, where element i of the permuted grid is element o_i of the grid; o^-1 = argsort(o).

    The elements may be pixels or patches: for patches of p pixels, `cell_order((H/p, W/p), c/p, seed)`
    moves them as `cell_order((H, W), c, seed)` moves the pixels.

    Args:
        grid: (rows, cols) of elements, counted row by row.
        cell: side c of a cell, in elements.
        seed: of the permutation, the same in every process.

    Returns:
        (rows * cols,) int64.

    Raises:
        UserError: the cells do not fill the grid.
    """
    rows, cols = grid
    if rows % cell or cols % cell:
        raise UserError(
            f"cells of {cell}x{cell} (data.cell_size) do not fill {rows}x{cols}: choose a side that "
            "divides both"
        )
    down, across = rows // cell, cols // cell
    elements = np.arange(rows * cols).reshape(down, cell, across, cell)  # (R,c,S,c)
    cells = elements.swapaxes(1, 2).reshape(-1, cell, cell)  # (R*S,c,c)
    # A stream of its own: the shuffles that analysis compares with start from plain seeds.
    moved = np.random.default_rng((seed, 1)).permutation(cells)  # (R*S,c,c)
    return moved.reshape(down, across, cell, cell).swapaxes(1, 2).reshape(-1)  # (rows*cols,)


def pixel_order(data: ConfigDict, shape: tuple[int, ...]) -> np.ndarray | None:
    """The order of the pixels that `config.data` asks for, (H*W,); None for no permutation.

    Args:
        data: `config.data`: cell_size, 0 or missing for no permutation, and permutation_seed.
        shape: of the images, (n, H, W, C).

    Raises:
        UserError: the cells do not fill the image.
    """
    cell, seed = data.get("cell_size", 0), data.get("permutation_seed", 0)
    return cell_order(shape[1:3], cell, seed) if cell else None


def permuted(images: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """y_i = x_(o_i): images (n, H, W, C) with their pixels in the order (H*W,), as they are for None."""
    if order is None:
        return images
    n, height, width, channels = images.shape
    flat = images.reshape(n, height * width, channels)  # (n,H*W,C)
    return flat[:, order].reshape(images.shape)


def unpermute_map(maps: np.ndarray, order: np.ndarray) -> np.ndarray:
    """B with B_(o_i, o_j) = A_ij: maps of permuted images, over the places before the permutation.

    Args:
        maps: A (..., N, N), of attention, scores or similarity, without the class token.
        order: o (N,), of the patches, from `cell_order`.

    Returns:
        (..., N, N).
    """
    back = np.argsort(order)
    return maps[..., back[:, None], back]


def unpermute_table(table: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Q with Q_(o_i) = P_i: a position table (N, E), a row a patch, over the places before."""
    return table[np.argsort(order)]

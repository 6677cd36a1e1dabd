"""Position tables, their resampling to another grid, and the class token."""

import keras
import numpy as np
from keras import ops

from posvit_tf.errors import UserError


def sincos_table(grid: tuple[int, int], width: int, class_token: bool) -> np.ndarray:
    """p(r,c) = [sin(r w_k), cos(r w_k), sin(c w_k), cos(c w_k)]_k, w_k = 10000^(-4k/E), k < E/4.

    Args:
        grid: (rows, cols) of patches.
        width: size E of a row of the table, a multiple of 4.
        class_token: whether a zero row for the class token comes first.

    Returns:
        float32 (rows*cols [+1], E), patches counted row by row.

    Raises:
        UserError: E is not a multiple of 4.
    """
    if width % 4:
        raise UserError(
            f"2-D sin-cos positions need a width that is a multiple of 4, not {width}: "
            "change model.width or set model.positions=learned"
        )
    frequencies = 10000.0 ** (-np.arange(width // 4) / (width // 4))  # (E/4,)
    row, col = (axis.reshape(-1, 1) for axis in np.indices(grid))  # (N,1) each
    angles = (row * frequencies, col * frequencies)  # 2 x (N,E/4)
    table = np.concatenate([f(a) for a in angles for f in (np.sin, np.cos)], axis=1)  # (N,E)
    if class_token:
        table = np.concatenate([np.zeros((1, width)), table])  # (N+1,E)
    return table.astype("float32")


def interpolation(old: int, new: int) -> np.ndarray:
    """w_ij = k((x_i - j) / s) / sum_j, x_i = (i + 1/2) old/new - 1/2, s = max(1, old/new), a row a new cell.

    Cubic interpolation between the centres of `old` cells, read at the centres of `new` cells that cover
    the same length, with Keys's kernel k(t) = 1.5 |t|^3 - 2.5 t^2 + 1 for |t| <= 1,
    -.5 |t|^3 + 2.5 t^2 - 4 |t| + 2 for |t| <= 2, else 0. Where cells merge, the kernel is widened over all
    of them (antialias); at the border, what would lie outside has no weight.

    Returns:
        float64 (new, old), rows sum to 1; the identity where new == old.
    """
    stride = old / new
    centres = (np.arange(new) + 0.5) * stride - 0.5  # (new,)
    t = np.abs(centres[:, None] - np.arange(old)) / max(1.0, stride)  # (new,old)
    near = (1.5 * t - 2.5) * t**2 + 1.0
    far = ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0
    weights = np.where(t <= 1.0, near, np.where(t <= 2.0, far, 0.0))  # (new,old)
    return weights / weights.sum(axis=1, keepdims=True)


def resampling(grid: tuple[int, int], new_grid: tuple[int, int], class_token: bool) -> np.ndarray:
    """R = [1] (+) (W_rows (x) W_cols): P becomes R P, and scores A become R A R^T.

    Positions are resampled over the picture that both grids cover, by `interpolation`. Since the rows of
    R sum to 1, R A R^T are just the scores of R P where A = (P W_Q + b_Q)(P W_K + b_K)^T.

    Args:
        grid, new_grid: (rows, cols) of patches, before and after.
        class_token: whether position 0 is a class token's, which stays as it is.

    Returns:
        float64 (N', N), N = rows*cols [+1].
    """
    rows, cols = (interpolation(old, new) for old, new in zip(grid, new_grid, strict=True))
    patches = np.kron(rows, cols)  # (rows'*cols',rows*cols)
    if not class_token:
        return patches
    matrix = np.pad(patches, ((1, 0), (1, 0)))  # (N',N)
    matrix[0, 0] = 1.0
    return matrix


@keras.saving.register_keras_serializable(package="posvit_tf")
class PositionTable(keras.layers.Layer):
    """P (N,E): one row of numbers a position; it depends on no image.

    Args:
        grid: (rows, cols) of patches.
        kind: "learned" (trained, starts as N(0, std^2)) or "sincos" (the fixed 2-D table).
        class_token: whether row 0 belongs to a class token (zeros in the sin-cos table).
        std: standard deviation of the learned table's start; a sin-cos table has none.

    Call arguments:
        tokens: (B, N, E); only the width is taken from them.

    Returns:
        P (N, E), without a batch axis.
    """

    def __init__(self, grid: tuple[int, int], kind="learned", class_token=False, std=1.0, **kwargs):
        super().__init__(**kwargs)
        if kind not in ("learned", "sincos"):
            raise UserError(f"a position table is learned or sincos. Received: kind={kind}")
        self.grid = tuple(grid)
        self.kind = kind
        self.class_token = class_token
        self.std = std

    def build(self, input_shape):
        _, tokens, width = input_shape
        positions = self.grid[0] * self.grid[1] + self.class_token
        if tokens != positions:
            raise UserError(
                f"a table of {positions} positions (grid {self.grid}, class token "
                f"{bool(self.class_token)}) does not fit {tokens} tokens: give the grid of the patches"
            )
        learned = self.kind == "learned"
        self.table = self.add_weight(
            shape=(positions, width),
            initializer=keras.initializers.RandomNormal(stddev=self.std)
            if learned
            else lambda shape, dtype: ops.cast(
                sincos_table(self.grid, width, self.class_token), dtype
            ),
            trainable=learned,
            name="table",
        )

    def call(self, tokens):
        return ops.cast(self.table, self.compute_dtype)  # (N,E)

    def compute_output_spec(self, tokens):
        return keras.KerasTensor(self.table.shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "grid": self.grid,
            "kind": self.kind,
            "class_token": self.class_token,
            "std": self.std,
        }


@keras.saving.register_keras_serializable(package="posvit_tf")
class ClassToken(keras.layers.Layer):
    """[t, x_1 ... x_N]: one trained token t put before the others; its row of the last block is read out.

    Call arguments:
        tokens: (B, N, E).

    Returns:
        (B, N+1, E).
    """

    def build(self, input_shape):
        self.token = self.add_weight(
            shape=(1, 1, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="token",
        )

    def call(self, tokens):
        batch, _, width = ops.shape(tokens)
        token = ops.broadcast_to(self.token, (batch, 1, width))  # (B,1,E)
        return ops.concatenate([token, tokens], axis=1)  # (B,N+1,E)

"""Attention by offset alone: a map that any grid of patches can have, never formed on a large one."""

import keras
import numpy as np
from keras import ops

from posvit_tf.errors import UserError
from posvit_tf.layers import local_maps
from posvit_tf.layers.attention import Attention
from posvit_tf.layers.mixing import softmax_rows
from posvit_tf.layers.normalization import project

DENSE = 1024  # patches up to which the map itself is the faster way


@keras.saving.register_keras_serializable(package="posvit_tf")
class RelativeAttention(Attention):
    """softmax_j(s_(g_i - g_j)) (x W_V) a head, g_i the place of patch i on the grid; heads joined by W_O.

    A head has (2h-1)(2w-1) numbers s, one an offset, and with a class token two more: how the class token
    scores all patches, and they it (its own score is 0). Over a large grid the map is never formed:
    A V = (e^s * V) / (e^s * 1), both convolutions by FFT, in N log N.

    Args:
        num_heads, key_weights, gate: as `Attention`.
        grid: (h, w), rows and columns of patches.
        std: standard deviation of the start of s.
        fft: whether the values are mixed by FFT; None: beyond DENSE patches.

    Call arguments and results as `Attention`; the map is (H, R, N).

    Raises:
        UserError: the tokens are not those of the grid, with or without a class token.
    """

    score_formula = "s at the offset from j to i"

    def __init__(self, num_heads: int, grid: tuple[int, int], std=0.02, fft=None, **kwargs):
        super().__init__(num_heads, **kwargs)
        self.grid = tuple(grid)
        self.std = std
        self.fft = fft

    def build_map(self, tokens_shape, positions_shape):
        rows, cols = self.grid
        patches = rows * cols
        self.first = tokens_shape[1] - patches  # the place of the first patch: 1 with a class token
        if self.first not in (0, 1):
            raise UserError(
                f"{tokens_shape[1]} tokens are not those of a grid of {rows}x{cols}: give the grid of the "
                "patches"
            )
        start = keras.initializers.RandomNormal(stddev=self.std)
        self.offsets = self.add_weight(
            shape=(self.num_heads, 2 * rows - 1, 2 * cols - 1), initializer=start, name="offsets"
        )
        if self.first:
            self.token_scores = self.add_weight(
                shape=(self.num_heads, 2), initializer="zeros", name="token_scores"
            )
        self.by_fft = patches > DENSE if self.fft is None else self.fft

    @property
    def map_variables(self) -> list[keras.Variable]:
        """s, and the class token's scores."""
        return [self.offsets, self.token_scores] if self.first else [self.offsets]

    def start_local(
        self, grid: tuple[int, int], shifts: list[tuple[int, int] | None], class_token: bool
    ) -> None:
        """s = `local_maps.offset_scores`; the class token's scores stay 0."""
        self.offsets.assign(local_maps.offset_scores(self.grid, self.head, shifts))

    def scores(self, positions=None, tokens=None, norm=None, rows=None):
        """The first rows of s_(g_i - g_j), (H, N, N), those of the class token first."""
        height, width = self.grid
        row, col = np.indices(self.grid).reshape(2, -1)  # (hw,) each
        wanted = len(row) if rows is None else rows - self.first
        down = row[:wanted, None] - row + height - 1  # (R,hw)
        right = col[:wanted, None] - col + width - 1  # (R,hw)
        flat = ops.reshape(self.offsets, (self.num_heads, -1))  # (H,(2h-1)(2w-1))
        scores = ops.take(flat, down * (2 * width - 1) + right, axis=1)  # (H,R,hw)
        if not self.first:
            return scores
        looks, seen = (self.token_scores[:, i, None, None] for i in range(2))  # (H,1,1) each
        top = ops.concatenate(
            [ops.zeros_like(looks), ops.repeat(looks, len(row), axis=2)], axis=2
        )  # (H,1,hw+1)
        left = ops.repeat(seen, wanted, axis=1)  # (H,R,1)
        return ops.concatenate(
            [top, ops.concatenate([left, scores], axis=2)], axis=1
        )  # (H,R+1,hw+1)

    def sums(self, x):
        """sum_j e^(s_ij) x_j of (B, N, H*c), up to one factor a head, without the map: (B, N, H*c)."""
        (height, width), heads = self.grid, self.num_heads
        c = x.shape[-1] // heads
        patches = ops.reshape(x[:, self.first :], (-1, height, width, heads, c))
        patches = ops.transpose(patches, (0, 3, 4, 1, 2))  # (B,H,c,h,w)
        offsets = ops.cast(self.offsets, "float32")
        largest = ops.max(offsets, axis=(1, 2))  # (H,)
        if self.first:
            token_scores = ops.cast(self.token_scores, "float32")  # (H,2)
            largest = ops.maximum(largest, ops.maximum(ops.max(token_scores, axis=1), 0.0))
        largest = ops.stop_gradient(largest)
        kernel = ops.exp(offsets - largest[:, None, None])  # (H,2h-1,2w-1)
        mixed = convolve(patches, kernel[:, None])  # (B,H,c,h,w)
        mixed = ops.transpose(mixed, (0, 3, 4, 1, 2))  # (B,h,w,H,c)
        mixed = ops.reshape(mixed, (-1, height * width, heads, c))  # (B,hw,H,c)
        if not self.first:
            return ops.reshape(mixed, (-1, height * width, heads * c))
        token = ops.reshape(x[:, :1], (-1, 1, heads, c))  # (B,1,H,c)
        looks, seen = (ops.exp(token_scores[:, i] - largest)[:, None] for i in range(2))  # (H,1)
        own = ops.exp(-largest)[:, None]  # (H,1)
        total = ops.reshape(ops.sum(x[:, 1:], axis=1, keepdims=True), (-1, 1, heads, c))
        both = [own * token + looks * total, mixed + seen * token]  # (B,1,H,c), (B,hw,H,c)
        return ops.reshape(ops.concatenate(both, axis=1), (-1, height * width + 1, heads * c))

    def weighted_sums(self, values, keys):
        """`mixing.weighted` of values (B, N, E) and keys (B, N, H) or (B, N, E), by `sums`."""
        largest = ops.stop_gradient(ops.max(keys, axis=1, keepdims=True))
        weights = ops.exp(keys - largest)  # (B,N,H) or (B,N,E)
        total = self.sums(weights)
        if self.key_weights == "head":
            weights, total = (ops.repeat(x, self.head, axis=2) for x in (weights, total))
        return self.sums(values * weights) / ops.maximum(total, float(np.finfo("float32").tiny))

    def call(
        self, tokens, positions=None, attention_map=None, return_map=False, norm=None, rows=None
    ):
        if not self.by_fft or attention_map is not None or rows is not None:
            return super().call(tokens, positions, attention_map, return_map, norm, rows)
        values = ops.cast(project(self.value, tokens, norm), "float32")  # (B,N,E)
        if self.key_weights == "none":
            count, heads = tokens.shape[1], self.num_heads
            total = ops.repeat(self.sums(ops.ones((1, count, heads))), self.head, axis=2)  # (1,N,E)
            mixed = self.sums(values) / total  # (B,N,E)
        else:
            keys = project(self.token_key, tokens, norm)  # (B,N,H) or (B,N,E)
            mixed = self.weighted_sums(values, ops.cast(keys, "float32"))  # (B,N,E)
        mixed = ops.cast(mixed, self.compute_dtype)
        output = self.out(self.gated(mixed, tokens, norm))  # (B,N,E)
        return (output, softmax_rows(self.scores())) if return_map else output

    def get_config(self):
        return {**super().get_config(), "grid": self.grid, "std": self.std, "fft": self.fft}


def convolve(images, kernel):
    """y_i = sum_j k_(i - j) x_j over the places of a grid.

    By the Fourier transform of two images at once, as real and imaginary part, on a grid of twice the size,
    so that nothing wraps around.

    Args:
        images: x (B, H, c, h, w) float32.
        kernel: k (H, 1, 2h-1, 2w-1), its middle is the offset 0.

    Returns:
        (B, H, c, h, w).
    """
    c, height, width = images.shape[2:]
    if c % 2:
        images = ops.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0), (0, 0)))
    real, imaginary = images[:, :, 0::2], images[:, :, 1::2]  # (B,H,c/2,h,w) each
    pad = ((0, 0), (0, 0), (0, 0), (0, height), (0, width))
    x = ops.fft2((ops.pad(real, pad), ops.pad(imaginary, pad)))  # (B,H,c/2,2h,2w)
    # Offset 0 comes first, and negative ones wrap around to the end.
    kernel = ops.pad(kernel, ((0, 0), (0, 0), (1, 0), (1, 0)))  # (H,1,2h,2w)
    kernel = ops.roll(kernel, (-height, -width), axis=(2, 3))
    k = ops.fft2((kernel, ops.zeros_like(kernel)))  # (H,1,2h,2w)
    product = (x[0] * k[0] - x[1] * k[1], x[0] * k[1] + x[1] * k[0])
    real, imaginary = (part[..., :height, :width] for part in ops.ifft2(product))
    mixed = ops.stack([real, imaginary], axis=3)  # (B,H,c/2,2,h,w)
    mixed = ops.reshape(mixed, (-1, *images.shape[1:]))  # (B,H,c,h,w)
    return mixed[:, :, :c]

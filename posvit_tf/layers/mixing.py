"""Tokens mixed by attention maps, in the form that is cheapest for the shape of the maps."""

import keras
from keras import ops

from posvit_tf.layers.normalization import project, weights


def softmax_rows(scores):
    """exp(s_ij) / sum_j exp(s_ij), in float32 whatever the precision of `scores` (..., N, N)."""
    return ops.softmax(ops.cast(scores, "float32"), axis=-1)


def mix(attention_map, values, num_heads: int):
    """out_bn = [sum_m A_hnm v_bmh]_h: one map a head for the whole batch, as one matmul a head.

    Args:
        attention_map: A (H, N, N).
        values: (B, N, H*dh).

    Returns:
        (B, N, H*dh).
    """
    tokens, width = values.shape[1:]
    head = width // num_heads
    v = ops.reshape(values, (-1, tokens, num_heads, head))  # (B,N,H,dh)
    v = ops.transpose(v, (2, 1, 0, 3))  # (H,N,B,dh)
    v = ops.reshape(v, (num_heads, tokens, -1))  # (H,N,B*dh)
    mixed = ops.matmul(ops.cast(attention_map, v.dtype), v)  # (H,N,B*dh)
    mixed = ops.reshape(mixed, (num_heads, tokens, -1, head))  # (H,N,B,dh)
    mixed = ops.transpose(mixed, (2, 1, 0, 3))  # (B,N,H,dh)
    return ops.reshape(mixed, (-1, tokens, width))  # (B,N,H*dh)


def mix_few(attention_map, tokens, value: keras.layers.Dense, norm=None):
    """out_b = [(A_h x_b) W_h + b_h]_h, the values of R mixed tokens in place of mixed values of all N.

    Equal to [A_h (x_b W_h + b_h)]_h, since the rows of A sum to 1, at R/N of its cost or less.

    Args:
        attention_map: A (H, R, N) or (B, H, R, N): the first R rows of each map.
        tokens: x (B, N, E).
        value: W (E, H*dh) and b (H*dh,), built.
        norm: as in `project`.

    Returns:
        (B, R, H*dh).
    """
    (heads, rows), (count, width) = attention_map.shape[-3:-1], tokens.shape[1:]
    attention_map = ops.cast(attention_map, tokens.dtype)
    flat = ops.reshape(attention_map, (-1, heads * rows, count))  # (1 or B,H*R,N)
    x = ops.matmul(flat, tokens)  # (B,H*R,E)
    x = ops.reshape(x, (-1, heads, rows, width))  # (B,H,R,E)
    x = ops.transpose(x, (1, 0, 2, 3))  # (H,B,R,E)
    x = ops.reshape(x, (heads, -1, width))  # (H,B*R,E)
    kernel, bias = weights(value, norm)
    kernel = ops.reshape(kernel, (width, heads, -1))  # (E,H,dh)
    values = ops.matmul(x, ops.transpose(kernel, (1, 0, 2)))  # (H,B*R,dh)
    values = ops.reshape(values, (heads, -1, rows, width // heads))  # (H,B,R,dh)
    values = ops.transpose(values, (1, 2, 0, 3))  # (B,R,H,dh)
    return ops.reshape(values, (-1, rows, width)) + bias  # (B,R,H*dh)


def attend(attention_map, tokens, value: keras.layers.Dense, norm=None):
    """out_b = [A_h (x_b W_h + b_h)]_h, in the form that is cheapest for the shape of A.

    Args:
        attention_map: A (H, R, N) or (B, H, R, N), R <= N.
        tokens: x (B, N, E).
        value: W (E, H*dh) and b (H*dh,), built.
        norm: as in `project`.

    Returns:
        (B, R, H*dh).
    """
    heads, rows = attention_map.shape[-3:-1]
    if rows < tokens.shape[1]:
        return mix_few(attention_map, tokens, value, norm)
    values = project(value, tokens, norm)  # (B,N,H*dh)
    if len(attention_map.shape) == 3:
        return mix(attention_map, values, heads)
    mixed = ops.matmul(ops.cast(attention_map, values.dtype), split(values, heads))  # (B,H,N,dh)
    mixed = ops.transpose(mixed, (0, 2, 1, 3))  # (B,N,H,dh)
    return ops.reshape(mixed, (-1, *values.shape[1:]))  # (B,N,H*dh)


def split(x, num_heads: int):
    """The heads of (B, N, H*dh), each by itself: (B, H, N, dh)."""
    x = ops.reshape(x, (-1, x.shape[1], num_heads, x.shape[2] // num_heads))  # (B,N,H,dh)
    return ops.transpose(x, (0, 2, 1, 3))  # (B,H,N,dh)

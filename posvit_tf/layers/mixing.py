"""Tokens mixed by attention maps, in the form that is cheapest for the shape of the maps."""

import keras
import numpy as np
from keras import ops

from posvit_tf.layers.normalization import project, weights


def softmax_rows(scores):
    """exp(s_ij) / sum_j exp(s_ij), in float32 whatever the precision of `scores` (..., N, N)."""
    return ops.softmax(ops.cast(scores, "float32"), axis=-1)


def by_head(x, num_heads: int):
    """(B, N, H*c) -> (H, N, B*c): what one map a head mixes in one product a head."""
    tokens, width = x.shape[1:]
    x = ops.reshape(x, (-1, tokens, num_heads, width // num_heads))  # (B,N,H,c)
    x = ops.transpose(x, (2, 1, 0, 3))  # (H,N,B,c)
    return ops.reshape(x, (num_heads, tokens, -1))  # (H,N,B*c)


def by_image(x, size: int):
    """(H, N, B*c) -> (B, N, H, c) with c = size: the inverse of `by_head`, its heads apart."""
    heads, tokens = x.shape[:2]
    x = ops.reshape(x, (heads, tokens, -1, size))  # (H,N,B,c)
    return ops.transpose(x, (2, 1, 0, 3))  # (B,N,H,c)


def mix(attention_map, values, num_heads: int):
    """out_bn = [sum_m A_hnm v_bmh]_h: one map a head for the whole batch, as one matmul a head.

    Args:
        attention_map: A (H, R, N).
        values: (B, N, H*c).

    Returns:
        (B, R, H*c).
    """
    width = values.shape[-1]
    v = by_head(values, num_heads)  # (H,N,B*c)
    mixed = ops.matmul(ops.cast(attention_map, v.dtype), v)  # (H,R,B*c)
    mixed = by_image(mixed, width // num_heads)  # (B,R,H,c)
    return ops.reshape(mixed, (-1, mixed.shape[1], width))  # (B,R,H*c)


def mix_weighted(mixed, values, keys, num_heads: int):
    """out_ic = sum_j A_ij e^(k_jc) v_jc / sum_j A_ij e^(k_jc), by numerator and denominator together.

    A shift of k leaves the quotient as it is, so the largest k of a channel is subtracted: no e^k exceeds
    1. Where every A_ij e^(k_jc) of a row underflows, the result is 0.

    Args:
        mixed: x (B, N, H*c) -> A x (B, R, H*c), for any c.
        values: v (B, N, H*dh).
        keys: k (B, N, H), one number a head, or (B, N, H*dh), one a channel.
        num_heads: H.

    Returns:
        (B, R, H*dh).

    Source: Zhai et al., An Attention Free Transformer (arXiv 2105.14103), with softmax maps.
    """
    tokens, width = values.shape[1:]
    head, number = width // num_heads, keys.shape[-1] // num_heads  # of the channels, of the keys
    # float16 has no room for a product of two small weights.
    dtype = "float32" if values.dtype == "float16" else values.dtype
    largest = ops.stop_gradient(ops.max(keys, axis=1, keepdims=True))  # (B,1,H*n)
    weights = ops.exp(ops.cast(keys - largest, dtype))  # (B,N,H*n)
    weights = ops.reshape(weights, (-1, tokens, num_heads, number))  # (B,N,H,n)
    v = ops.reshape(ops.cast(values, dtype), (-1, tokens, num_heads, head))  # (B,N,H,dh)
    both = ops.concatenate([v * weights, weights], axis=-1)  # (B,N,H,dh+n)
    both = mixed(ops.reshape(both, (-1, tokens, num_heads * (head + number))))  # (B,R,H*(dh+n))
    rows = both.shape[1]
    both = ops.reshape(both, (-1, rows, num_heads, head + number))  # (B,R,H,dh+n)
    numerator, denominator = both[..., :head], both[..., head:]
    out = numerator / ops.maximum(denominator, float(np.finfo("float32").tiny))  # (B,R,H,dh)
    return ops.cast(ops.reshape(out, (-1, rows, width)), values.dtype)  # (B,R,H*dh)


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

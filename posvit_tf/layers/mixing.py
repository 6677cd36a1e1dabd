"""Tokens mixed by attention maps, in the form that is cheapest for the shape of the maps."""

import keras
import numpy as np
from keras import ops

from posvit_tf.layers.normalization import project, weights


def softmax_rows(scores):
    """exp(s_ij) / sum_j exp(s_ij), in float32 whatever the precision of `scores` (..., N, N)."""
    return ops.softmax(ops.cast(scores, "float32"), axis=-1)


def by_head(x, num_heads: int):
    """(B, N, H*c) -> (H, N, B, c): what one map a head mixes in one product a head."""
    tokens, width = x.shape[1:]
    x = ops.reshape(x, (-1, tokens, num_heads, width // num_heads))  # (B,N,H,c)
    return ops.transpose(x, (2, 1, 0, 3))  # (H,N,B,c)


def joined(x):
    """(H, N, B, c) -> (B, N, H*c): the inverse of `by_head`."""
    heads, tokens, _, size = x.shape
    x = ops.transpose(x, (2, 1, 0, 3))  # (B,N,H,c)
    return ops.reshape(x, (-1, tokens, heads * size))  # (B,N,H*c)


def product(maps, x):
    """A x a head for the whole batch at once: A (H, R, N), x (H, N, B, c) -> (H, R, B, c)."""
    heads, tokens, _, size = x.shape
    flat = ops.matmul(maps, ops.reshape(x, (heads, tokens, -1)))  # (H,R,B*c)
    return ops.reshape(flat, (heads, maps.shape[1], -1, size))


def mix(attention_map, values, num_heads: int):
    """out_bn = [sum_m A_hnm v_bmh]_h: one map a head for the whole batch, as one matmul a head.

    Args:
        attention_map: A (H, R, N).
        values: (B, N, H*c).

    Returns:
        (B, R, H*c).
    """
    v = by_head(values, num_heads)  # (H,N,B,c)
    return joined(product(ops.cast(attention_map, v.dtype), v))


@ops.custom_gradient
def weighted(maps, v, k):
    """z_ic = sum_j A_ij e^(k_jc) v_jc / sum_j A_ij e^(k_jc), a head.

    A shift of k leaves z as it is, so the largest k of a channel is subtracted: no e^k exceeds 1. Where all
    A_ij e^(k_jc) of a row underflow, z is 0. Its gradient is written out, since a tape makes more passes:
    with e = e^k and D = A e, n = dz / D, d = -n z:  dv = e A^T n,  dk = e (v A^T n + A^T d),
    dA = n (e v)^T + d e^T.

    Args:
        maps: A (H, R, N).
        v: (H, N, B, dh).
        k: (H, N, B, dh), or (H, N, B, 1) where the channels of a head share it.

    Returns:
        (H, R, B, dh).
    """
    shared = k.shape[-1] < v.shape[-1]
    e = ops.exp(k - ops.max(k, axis=1, keepdims=True))  # as k
    p = e * v  # (H,N,B,dh)
    total = ops.maximum(product(maps, e), float(np.finfo("float32").tiny))  # as k, R for N
    z = product(maps, p) / total  # (H,R,B,dh)

    def gradient(dz):
        def over_channels(x):
            return ops.sum(x, axis=-1, keepdims=True) if shared else x

        def outer(one, other):  # (H,R,B,c), (H,N,B,c) -> (H,R,N)
            one, other = (ops.reshape(x, (*x.shape[:2], -1)) for x in (one, other))
            return ops.matmul(one, ops.swapaxes(other, 1, 2))

        back = ops.swapaxes(maps, 1, 2)  # (H,N,R)
        n = dz / total  # (H,R,B,dh)
        d = over_channels(-n * z)  # as k, R for N
        dp = product(back, n)  # (H,N,B,dh)
        dk = e * (over_channels(v * dp) + product(back, d))
        return outer(n, p) + outer(d, e), e * dp, dk

    return z, gradient


def mix_weighted(attention_map, values, keys, num_heads: int):
    """`weighted` for (B, N, ...): values of tokens that weigh by a key of their own.

    Args:
        attention_map: A (H, R, N).
        values: v (B, N, H*dh).
        keys: k (B, N, H), one number a head, or (B, N, H*dh), one a channel.
        num_heads: H.

    Returns:
        (B, R, H*dh).

    Source: Zhai et al., An Attention Free Transformer (arXiv 2105.14103), with softmax maps.
    """
    # float16 has no room for a product of two small weights.
    dtype = "float32" if values.dtype == "float16" else values.dtype
    v, k = (by_head(ops.cast(x, dtype), num_heads) for x in (values, keys))
    z = weighted(ops.cast(attention_map, dtype), v, k)  # (H,R,B,dh)
    return ops.cast(joined(z), values.dtype)


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

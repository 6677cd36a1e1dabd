"""Three attentions with one call signature: from the tokens, from the positions, and a free matrix.

Every one is called as `attention(tokens, positions)` and mixes its heads' values by a map with rows that
sum to 1; `return_map=True` returns the map as well, and `attention_map=` puts another in its place, which
then is not computed. `rows=` asks for the first of the tokens alone. What the map depends on is all that
differs:

    SelfAttention         the tokens              map (B,H,N,N)
    PositionalAttention   the positions alone     map (H,N,N)
    OffDiagonalAttention  nothing but itself      map (H,N,N)
"""

import keras
from keras import ops

from posvit_tf.errors import UserError
from posvit_tf.layers.normalization import project, weights


def softmax_rows(scores):
    """exp(s_ij) / sum_j exp(s_ij), in float32 whatever the precision of `scores` (..., N, N)."""
    return ops.softmax(ops.cast(scores, "float32"), axis=-1)


def fixed_diagonal(scores, diagonal: float):
    """`scores` (..., N, N) with `diagonal` in place of its diagonal, which thereby gets no gradient."""
    scores = ops.convert_to_tensor(scores)  # a Variable is not taken by every backend's where
    eye = ops.eye(scores.shape[-1], dtype="bool")
    return ops.where(eye, ops.cast(diagonal, scores.dtype), scores)


def check_heads(width: int, num_heads: int) -> int:
    """The size of a head, width / num_heads.

    Raises:
        UserError: the heads do not divide the width.
    """
    if num_heads < 1 or width % num_heads:
        raise UserError(
            f"{num_heads} attention heads do not divide a width of {width}: "
            "set the heads to a divisor of the width"
        )
    return width // num_heads


def projection(layer: keras.layers.Layer, width: int, name: str) -> keras.layers.Dense:
    """W x + b from `width` to `width`, at the precision of `layer`, built."""
    dense = keras.layers.Dense(width, dtype=layer.dtype_policy, name=name)
    dense.build((None, width))
    return dense


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


@keras.saving.register_keras_serializable(package="posvit_tf")
class SelfAttention(keras.layers.Layer):
    """softmax((x W_Q)(x W_K)^T / sqrt(dh)) (x W_V) a head, heads joined by W_O: the vanilla ViT's attention.

    Args:
        num_heads: H; it must divide the width E; a head has dh = E/H numbers.

    Call arguments:
        tokens: x (B, N, E).
        positions: not used; taken so that the three attentions are called alike.
        attention_map: a map (H, R, N) in place of its own; its R rows are those of the output.
        return_map: whether to return the map too.
        norm: a LayerNorm that the tokens have not gone through but for its `standardised`.
        rows: R, how many of the first tokens the output is wanted of; None: of all N.

    Returns:
        (B, R, E), or that and the map (B, H, R, N) float32.

    Raises:
        UserError: the heads do not divide the width.
    """

    def __init__(self, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, tokens_shape, positions_shape=None):
        width = tokens_shape[-1]
        self.head = check_heads(width, self.num_heads)
        self.query = projection(self, width, "query")
        self.key = projection(self, width, "key")
        self.value = projection(self, width, "value")
        self.out = projection(self, width, "out")

    def call(
        self, tokens, positions=None, attention_map=None, return_map=False, norm=None, rows=None
    ):
        if attention_map is None:
            # Scaled before the product: in float16 the product itself can overflow.
            query = project(self.query, tokens[:, :rows], norm) * self.head**-0.5  # (B,R,E)
            key = split(project(self.key, tokens, norm), self.num_heads)  # (B,H,N,dh)
            scores = ops.matmul(
                split(query, self.num_heads), ops.swapaxes(key, -1, -2)
            )  # (B,H,R,N)
            attention_map = softmax_rows(scores)
        output = self.out(attend(attention_map, tokens, self.value, norm))  # (B,R,E)
        return (output, attention_map) if return_map else output

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}


@keras.saving.register_keras_serializable(package="posvit_tf")
class PositionalAttention(keras.layers.Layer):
    """softmax((P W_Q)(P W_K)^T / sqrt(dh)) (x W_V) a head, heads joined by W_O (paper, section 3).

    Queries and keys come from the position table P alone and values from the tokens x alone, so the
    map is the same for every image and is computed once a batch.

    Args:
        num_heads: H; it must divide the width E; a head has dh = E/H numbers.

    Call arguments:
        tokens: x (B, N, E).
        positions: P (N, E), without a batch axis; `PositionTable` gives one.
        attention_map: a map (H, R, N) in place of its own; its R rows are those of the output.
        return_map: whether to return the map too.
        norm: a LayerNorm that the tokens have not gone through but for its `standardised`.
        rows: R, how many of the first tokens the output is wanted of; None: of all N.

    Returns:
        (B, R, E), or that and the map (H, R, N) float32.

    Raises:
        UserError: the heads do not divide the width.
    """

    def __init__(self, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, tokens_shape, positions_shape):
        if len(positions_shape) != 2:
            raise UserError(
                f"positions are a table (N, E) without a batch axis, not {tuple(positions_shape)}: "
                "PositionTable gives one"
            )
        width = tokens_shape[-1]
        self.head = check_heads(width, self.num_heads)
        self.query = projection(self, width, "query")
        self.key = projection(self, width, "key")
        self.value = projection(self, width, "value")
        self.out = projection(self, width, "out")

    def scores(self, positions, rows=None):
        """(P W_Q)(P W_K)^T / sqrt(dh) a head: positions (N, E) -> the first rows of (H, N, N), no softmax."""

        def heads(x):
            x = ops.reshape(x, (-1, self.num_heads, self.head))  # (N,H,dh)
            return ops.transpose(x, (1, 0, 2))  # (H,N,dh)

        query = heads(self.query(positions[:rows])) * self.head**-0.5  # (H,R,dh)
        return ops.matmul(query, ops.swapaxes(heads(self.key(positions)), -1, -2))  # (H,R,N)

    def call(
        self, tokens, positions=None, attention_map=None, return_map=False, norm=None, rows=None
    ):
        if attention_map is None:
            attention_map = softmax_rows(self.scores(positions, rows))  # (H,R,N)
        output = self.out(attend(attention_map, tokens, self.value, norm))  # (B,R,E)
        return (output, attention_map) if return_map else output

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}


@keras.saving.register_keras_serializable(package="posvit_tf")
class OffDiagonalAttention(keras.layers.Layer):
    """softmax(A) (x W_V) a head, A_ii = diagonal fixed, A_ij trained; heads joined by W_O (paper, section 3).

    The paper's simplification of positional attention: the scores themselves are the parameters. The
    diagonal is put in anew at each call, so no optimizer, decay or restore can move it.

    Args:
        num_heads: H; it must divide the width E.
        diagonal: the fixed value of A_ii.
        std: standard deviation of the start of A_ij; with diagonal=0 and std=0 the map is uniform.
        train_map: whether A_ij is trained.

    Call arguments:
        tokens: x (B, N, E).
        positions: not used; taken so that the three attentions are called alike.
        attention_map: a map (H, R, N) in place of its own; its R rows are those of the output.
        return_map: whether to return the map too.
        norm: a LayerNorm that the tokens have not gone through but for its `standardised`.
        rows: R, how many of the first tokens the output is wanted of; None: of all N.

    Returns:
        (B, R, E), or that and the map (H, R, N) float32.

    Raises:
        UserError: the heads do not divide the width.
    """

    def __init__(self, num_heads: int, diagonal=1.0, std=0.02, train_map=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.diagonal = diagonal
        self.std = std
        self.train_map = train_map

    def build(self, tokens_shape, positions_shape=None):
        _, tokens, width = tokens_shape
        check_heads(width, self.num_heads)
        self.off_diagonal = self.add_weight(
            shape=(self.num_heads, tokens, tokens),
            initializer=keras.initializers.RandomNormal(stddev=self.std),
            trainable=self.train_map,
            name="off_diagonal",
        )
        self.value = projection(self, width, "value")
        self.out = projection(self, width, "out")

    def scores(self, positions=None, rows=None):
        """The first rows of A (H, N, N): the trained values off the diagonal, the fixed one on it."""
        return fixed_diagonal(self.off_diagonal, self.diagonal)[:, :rows]

    def call(
        self, tokens, positions=None, attention_map=None, return_map=False, norm=None, rows=None
    ):
        if attention_map is None:
            attention_map = softmax_rows(self.scores(rows=rows))  # (H,R,N)
        output = self.out(attend(attention_map, tokens, self.value, norm))  # (B,R,E)
        return (output, attention_map) if return_map else output

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "diagonal": self.diagonal,
            "std": self.std,
            "train_map": self.train_map,
        }

"""What all attentions share: a map with rows that sum to 1 mixes each head's values."""

import keras
import numpy as np
from keras import ops

from posvit_tf.errors import UserError
from posvit_tf.layers import local_maps
from posvit_tf.layers.mixing import attend, mix_weighted, softmax_rows
from posvit_tf.layers.normalization import project

KEY_WEIGHTS = ("none", "head", "channel")


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


def projection(
    layer: keras.layers.Layer, width: int, name: str, numbers: int | None = None, use_bias=True
) -> keras.layers.Dense:
    """x W + b from `width` to as many numbers, or to `numbers`, at the precision of `layer`, built."""
    dense = keras.layers.Dense(
        numbers or width, use_bias=use_bias, dtype=layer.dtype_policy, name=name
    )
    dense.build((None, width))
    return dense


class Attention(keras.layers.Layer):
    """softmax(S) (x W_V) a head, heads joined by W_O; the scores S are the subclass's.

    A subclass makes its weights in `build_map` and S of them in `scores`, and says what they are made of:

        source          "tokens", "positions", or "" where the weights alone make them; a map has a batch
                        axis where it is made of the tokens
        score_formula   of s_ij, for the captions of plots
        map_variables   the weights that the map comes from, beside tokens and positions
        start_local     sets these weights so that the map starts local

    With `key_weights`, each token's values also weigh as its own key says, no token being compared with
    another: out_ic = sum_j A_ij e^(k_jc) v_jc / sum_j A_ij e^(k_jc), k = x W_k (`mixing.mix_weighted`). With
    `gate`, the mixed values are multiplied by sigmoid(x W_g) before W_O.

    Args:
        num_heads: H; it must divide the width E; a head has dh = E/H numbers.
        key_weights: "none", "head" (k has H numbers a token) or "channel" (E numbers); a map made of the
            tokens takes none.
        gate: whether a gate follows the mixing.

    Call arguments:
        tokens: x (B, N, E).
        positions: P (N, E), without a batch axis, as `PositionTable` gives it; only what reads it needs it.
        attention_map: a map (H, R, N) in place of its own; its R rows are those of the output.
        return_map: whether to return the map too.
        norm: a LayerNorm that the tokens have not gone through but for its `standardised`.
        rows: R, how many of the first tokens the output is wanted of; None: of all N.

    Returns:
        (B, R, E), or that and the map (H, R, N) or (B, H, R, N), float32.

    Raises:
        UserError: the heads do not divide the width, or the map takes no key weights.
    """

    source = ""
    score_formula = ""

    def __init__(self, num_heads: int, key_weights="none", gate=False, **kwargs):
        super().__init__(**kwargs)
        if key_weights not in KEY_WEIGHTS or (key_weights != "none" and self.source == "tokens"):
            raise UserError(
                f"key_weights={key_weights!r} is not for {type(self).__name__}: set it to none, or, with a "
                "map that no token makes, to head or channel"
            )
        self.num_heads = num_heads
        self.key_weights = key_weights
        self.gate = gate

    def build(self, tokens_shape, positions_shape=None):
        width = tokens_shape[-1]
        self.head = check_heads(width, self.num_heads)
        self.build_map(tokens_shape, positions_shape)
        if self.key_weights != "none":
            numbers = width if self.key_weights == "channel" else self.num_heads
            # No bias: a shift of all keys changes nothing.
            self.token_key = projection(self, width, "token_key", numbers, use_bias=False)
        self.value = projection(self, width, "value")
        if self.gate:
            self.token_gate = projection(self, width, "token_gate")
        self.out = projection(self, width, "out")

    def mixed(self, attention_map, tokens, norm):
        """The values (B, R, E) of tokens x (B, N, E), mixed by a map of R rows."""
        if self.key_weights == "none":
            return attend(attention_map, tokens, self.value, norm)
        values, keys = (project(dense, tokens, norm) for dense in (self.value, self.token_key))
        return mix_weighted(attention_map, values, keys, self.num_heads)

    def call(
        self, tokens, positions=None, attention_map=None, return_map=False, norm=None, rows=None
    ):
        if attention_map is None:
            attention_map = softmax_rows(self.scores(positions, tokens, norm, rows))
        mixed = self.mixed(attention_map, tokens, norm)  # (B,R,E)
        output = self.out(self.gated(mixed, tokens, norm))  # (B,R,E)
        return (output, attention_map) if return_map else output

    def gated(self, mixed, tokens, norm):
        """mixed * sigmoid(x W_g), or `mixed` (B, R, E) as it is, of tokens x (B, N, E)."""
        if not self.gate:
            return mixed
        gate = project(self.token_gate, tokens[:, : mixed.shape[1]], norm)  # (B,R,E)
        return mixed * ops.cast(ops.sigmoid(gate), mixed.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_weights": self.key_weights,
            "gate": self.gate,
        }


class QueryKeyAttention(Attention):
    """s_ij = <z_i W_Q, z_j W_K> / sqrt(dh) a head, z the tokens or the positions."""

    score_formula = "<W_Q p_i, W_K p_j> / sqrt(head width)"

    def build_map(self, tokens_shape, positions_shape):
        self.query = projection(self, tokens_shape[-1], "query")
        self.key = projection(self, tokens_shape[-1], "key")

    @property
    def map_variables(self) -> list[keras.Variable]:
        """W_Q and W_K with their biases."""
        return [*self.query.variables, *self.key.variables]

    def start_local(
        self, grid: tuple[int, int], shifts: list[tuple[int, int] | None], class_token: bool
    ) -> None:
        """W_Q and W_K of `local_maps.projections`, which read the first columns of z alone."""
        query_key = local_maps.projections(grid, self.head, shifts)  # 2 x (C,H,dh)
        for dense, start in zip((self.query, self.key), query_key, strict=True):
            rows = start.reshape(len(start), -1)  # (C,E)
            dense.kernel.assign(np.pad(rows, ((0, dense.units - len(rows)), (0, 0))))  # (E,E)

"""The encoder block: attention and MLP, each on normalised tokens and added back."""

import math

import keras
from keras import ops

from posvit_tf.layers.normalization import LayerNorm, project


@ops.custom_gradient
def gelu(x):
    """x F(x), F(x) = (1 + erf(x / sqrt 2)) / 2: the exact GELU, in the form that ONNX and LiteRT take.

    Its gradient F(x) + x exp(-x^2 / 2) / sqrt(2 pi) is written out: a tape makes more of it. In half
    precision F loses its tail, so it is float32 inside.
    """
    x32 = ops.cast(x, "float32")
    twice = ops.erf(x32 * 0.5**0.5) + 1.0  # 2 F(x)

    def gradient(dy):
        slope = 0.5 * (twice + x32 * ops.exp(-0.5 * x32 * x32) * (2.0 / math.pi) ** 0.5)
        return dy * ops.cast(slope, dy.dtype)

    # Halved before the product: LiteRT knows its GELU by this order.
    return ops.cast((0.5 * x32) * twice, x.dtype), gradient


@keras.saving.register_keras_serializable(package="posvit_tf")
class Mlp(keras.layers.Layer):
    """gelu(x W_1 + b_1) W_2 + b_2, dropout after each of the two.

    Args:
        hidden_width: size of the hidden layer.
        dropout: share of values dropped in training.

    Call arguments:
        tokens: (B, N, E).
        norm: a LayerNorm that the tokens have not gone through but for its `standardised`.

    Returns:
        (B, N, E).
    """

    def __init__(self, hidden_width: int, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden_width = hidden_width
        self.dropout = dropout

    def build(self, input_shape):
        width = input_shape[-1]
        self.hidden = keras.layers.Dense(self.hidden_width, dtype=self.dtype_policy, name="hidden")
        self.hidden.build((None, width))
        self.out = keras.layers.Dense(width, dtype=self.dtype_policy, name="out")
        self.out.build((None, self.hidden_width))
        self.drop_hidden = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.drop_out = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, tokens, training=False, norm=None):
        hidden = gelu(project(self.hidden, tokens, norm))
        hidden = self.drop_hidden(hidden, training=training)
        return self.drop_out(self.out(hidden), training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_width": self.hidden_width,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable(package="posvit_tf")
class DropPath(keras.layers.Dropout):
    """x m / (1 - rate), m in {0, 1} drawn once an example, P[m = 0] = rate; x itself outside training.

    Args:
        rate: share of examples whose branch is left out.

    Call arguments:
        inputs: (B, N, E).
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(rate, noise_shape=(None, 1, 1), **kwargs)

    def get_config(self):
        config = super().get_config()
        del config["noise_shape"]
        return config


@keras.saving.register_keras_serializable(package="posvit_tf")
class EncoderBlock(keras.layers.Layer):
    """x <- x + attention(norm(x), P);  x <- x + mlp(norm(x)): a pre-norm block, LayerNorm epsilon 1e-6.

    Args:
        attention: any of the three attentions of `posvit_tf.layers`, not built.
        mlp_width: hidden width of the MLP.
        dropout: share of values dropped after the attention and in the MLP.
        drop_path: share of examples that skip a branch.

    Call arguments:
        tokens: (B, N, E).
        positions: P (N, E), or None where the attention needs none.
        attention_map: a map (H, R, N) in place of the attention's own; its R rows are those of the output.
        return_map: whether to return the attention map too.
        rows: R, how many of the first tokens the output is wanted of; None: of all N.

    Returns:
        (B, R, E), or that and the attention's map.
    """

    def __init__(self, attention, mlp_width: int, dropout=0.0, drop_path=0.0, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.mlp_width = mlp_width
        self.dropout = dropout
        self.drop_path = drop_path

    def build(self, tokens_shape, positions_shape=None):
        def part(layer, name, *args, **kwargs):
            return layer(*args, **kwargs, dtype=self.dtype_policy, name=name)

        self.norm_attention = part(LayerNorm, "norm_attention")
        self.norm_mlp = part(LayerNorm, "norm_mlp")
        self.mlp = part(Mlp, "mlp", self.mlp_width, self.dropout)
        self.drop_attention = part(keras.layers.Dropout, "drop_attention", self.dropout)
        self.drop_path_attention = part(DropPath, "drop_path_attention", self.drop_path)
        self.drop_path_mlp = part(DropPath, "drop_path_mlp", self.drop_path)
        for layer in (self.norm_attention, self.norm_mlp, self.mlp):
            layer.build(tokens_shape)
        if not self.attention.built:  # a loaded file hands it over built
            self.attention.build(tokens_shape, positions_shape)

    def call(
        self,
        tokens,
        positions=None,
        attention_map=None,
        return_map=False,
        rows=None,
        training=False,
    ):
        def normalised(tokens, norm):
            # Folding costs a pass over the weights: too much where few tokens are only predicted.
            return (norm.standardised(tokens), norm) if training else (norm(tokens), None)

        read, norm = normalised(tokens, self.norm_attention)
        mixed, attention_map = self.attention(
            read, positions, attention_map, return_map=True, norm=norm, rows=rows
        )  # (B,R,E)
        mixed = self.drop_attention(mixed, training=training)
        tokens = tokens[:, : mixed.shape[1]]  # (B,R,E)
        tokens = tokens + self.drop_path_attention(mixed, training=training)
        read, norm = normalised(tokens, self.norm_mlp)
        hidden = self.mlp(read, training=training, norm=norm)
        tokens = tokens + self.drop_path_mlp(hidden, training=training)
        return (tokens, attention_map) if return_map else tokens

    def get_config(self):
        return {
            **super().get_config(),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "mlp_width": self.mlp_width,
            "dropout": self.dropout,
            "drop_path": self.drop_path,
        }

    @classmethod
    def from_config(cls, config):
        attention = keras.saving.deserialize_keras_object(config["attention"])
        return cls(**{**config, "attention": attention})

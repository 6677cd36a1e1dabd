"""Keras layers of the positional-attention ViT, on keras.ops only: they run on any Keras backend."""

from posvit_tf.layers.encoder import DropPath, EncoderBlock, Mlp
from posvit_tf.layers.normalization import LayerNorm
from posvit_tf.layers.off_diagonal_attention import OffDiagonalAttention
from posvit_tf.layers.patches import PatchEmbedding
from posvit_tf.layers.positional_attention import PositionalAttention
from posvit_tf.layers.positions import ClassToken, PositionTable, sincos_table
from posvit_tf.layers.relative_attention import RelativeAttention
from posvit_tf.layers.self_attention import SelfAttention

__all__ = [
    "ClassToken",
    "DropPath",
    "EncoderBlock",
    "LayerNorm",
    "Mlp",
    "OffDiagonalAttention",
    "PatchEmbedding",
    "PositionTable",
    "PositionalAttention",
    "RelativeAttention",
    "SelfAttention",
    "sincos_table",
]

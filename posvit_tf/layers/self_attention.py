"""The vanilla ViT's attention: the map comes from the tokens."""

import keras
from keras import ops

from posvit_tf.layers.attention import QueryKeyAttention
from posvit_tf.layers.mixing import split
from posvit_tf.layers.normalization import project


@keras.saving.register_keras_serializable(package="posvit_tf")
class SelfAttention(QueryKeyAttention):
    """softmax((x W_Q)(x W_K)^T / sqrt(dh)) (x W_V) a head, heads joined by W_O: the vanilla ViT's attention.

    Arguments and results as `Attention`; the map is (B, H, R, N).
    """

    source = "tokens"

    def scores(self, positions=None, tokens=None, norm=None, rows=None):
        """The first rows of the scores (B, H, N, N), before the softmax, of tokens (B, N, E)."""
        # Scaled before the product: in float16 the product itself can overflow.
        query = project(self.query, tokens[:, :rows], norm) * self.head**-0.5  # (B,R,E)
        key = split(project(self.key, tokens, norm), self.num_heads)  # (B,H,N,dh)
        return ops.matmul(split(query, self.num_heads), ops.swapaxes(key, -1, -2))  # (B,H,R,N)

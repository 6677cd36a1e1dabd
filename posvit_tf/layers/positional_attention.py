"""The paper's positional attention: the map comes from the positions alone."""

import keras
from keras import ops

from posvit_tf.errors import UserError
from posvit_tf.layers.attention import QueryKeyAttention


@keras.saving.register_keras_serializable(package="posvit_tf")
class PositionalAttention(QueryKeyAttention):
    """softmax((P W_Q)(P W_K)^T / sqrt(dh)) (x W_V) a head, heads joined by W_O (paper, section 3).

    Queries and keys come from the position table P alone and values from the tokens x alone, so the
    map is the same for every image and is computed once a batch.

    Arguments and results as `Attention`; the map is (H, R, N).
    """

    source = "positions"

    def build_map(self, tokens_shape, positions_shape):
        if len(positions_shape) != 2:
            raise UserError(
                f"positions are a table (N, E) without a batch axis, not {tuple(positions_shape)}: "
                "PositionTable gives one"
            )
        super().build_map(tokens_shape, positions_shape)

    def scores(self, positions, tokens=None, norm=None, rows=None):
        """The first rows of the scores (H, N, N), before the softmax, of positions (N, E)."""

        def heads(x):
            x = ops.reshape(x, (-1, self.num_heads, self.head))  # (N,H,dh)
            return ops.transpose(x, (1, 0, 2))  # (H,N,dh)

        query = heads(self.query(positions[:rows])) * self.head**-0.5  # (H,R,dh)
        return ops.matmul(query, ops.swapaxes(heads(self.key(positions)), -1, -2))  # (H,R,N)

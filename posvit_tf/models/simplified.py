"""The paper's simplified ViT (section 3) as a Keras model."""

import keras
from keras import ops

from posvit_tf.errors import UserError
from posvit_tf.layers.mixing import softmax_rows
from posvit_tf.layers.off_diagonal_attention import fixed_diagonal


@keras.saving.register_keras_serializable(package="posvit_tf")
def logistic_loss(y, F):
    """log(1 + exp(-y F)) of outputs F (B, 1) and labels y of -1 or +1, (B,) or (B, 1); gives (B,)."""
    y = ops.reshape(ops.cast(y, F.dtype), ops.shape(F))
    return ops.mean(ops.softplus(-y * F), axis=-1)


@keras.saving.register_keras_serializable(package="posvit_tf")
class SimplifiedViT(keras.Model):
    """F(X) = c sum_i act(s sum_j S_ij <v, X_j>), S = softmax(t A) by rows, act(x) = x^p + nu x.

    Trained are v (d,) and the off-diagonal of A (D, D), or the encodings P (D, m) of A = P P^T; the
    diagonal of A is fixed (paper, section 3). Train with `logistic_loss` and labels of -1 and +1.

    Args:
        power: p, odd and 3 or more.
        nu: of the activation.
        diagonal: the fixed A_ii, sigma_A.
        scale: s, D when None.
        output_scale: c, 1 / D when None; 1 as printed in the paper.
        score_scale: t; 1 / sqrt(d) as printed in the paper.
        encoding_size: m of A = P P^T; None for a free A.
        value_std: standard deviation of the start of v, omega.
        score_std: of the start of A_ij, or of P.

    Call arguments:
        patches: X (B, D, d).

    Returns:
        F (B, 1).

    Raises:
        UserError: p is even or below 3.
    """

    def __init__(
        self,
        power: int = 3,
        nu: float = 0.1,
        diagonal: float = 2.0,
        scale: float | None = None,
        output_scale: float | None = None,
        score_scale: float = 1.0,
        encoding_size: int | None = None,
        value_std: float = 0.01,
        score_std: float = 0.01,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if power < 3 or power % 2 == 0:
            raise UserError(f"power={power} is not an odd number of 3 or more: set it to 3, 5 or 7")
        self.power = power
        self.nu = nu
        self.diagonal = diagonal
        self.scale = scale
        self.output_scale = output_scale
        self.score_scale = score_scale
        self.encoding_size = encoding_size
        self.value_std = value_std
        self.score_std = score_std

    def build(self, patches_shape):
        _, D, d = patches_shape
        self.v = self.add_weight(
            shape=(d,), initializer=keras.initializers.RandomNormal(stddev=self.value_std), name="v"
        )
        start = keras.initializers.RandomNormal(stddev=self.score_std)
        if self.encoding_size is None:
            self.off_diagonal = self.add_weight(
                shape=(D, D), initializer=start, name="off_diagonal"
            )
        else:
            self.encodings = self.add_weight(
                shape=(D, self.encoding_size), initializer=start, name="encodings"
            )
        self.built = True

    def scores(self):
        """A (D, D): the trained values off the diagonal, the fixed one on it."""
        if self.encoding_size is None:
            return fixed_diagonal(self.off_diagonal, self.diagonal)
        gram = ops.matmul(self.encodings, ops.transpose(self.encodings))  # (D,D)
        return fixed_diagonal(gram, self.diagonal)

    def call(self, patches):
        D = patches.shape[1]
        scale = D if self.scale is None else self.scale
        output_scale = 1 / D if self.output_scale is None else self.output_scale
        S = softmax_rows(self.score_scale * self.scores())  # (D,D)
        z = ops.matmul(patches, self.v)  # (B,D)
        o = scale * ops.matmul(z, ops.transpose(S))  # (B,D)
        return output_scale * ops.sum(o**self.power + self.nu * o, axis=1, keepdims=True)  # (B,1)

    def get_config(self):
        names = "power nu diagonal scale output_scale score_scale encoding_size value_std score_std"
        return {**super().get_config(), **{name: getattr(self, name) for name in names.split()}}

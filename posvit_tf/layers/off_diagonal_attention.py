"""The paper's simplification of positional attention: the scores themselves are the parameters."""

import keras
from keras import ops

from posvit_tf.layers import local_maps
from posvit_tf.layers.attention import Attention


def fixed_diagonal(scores, diagonal: float):
    """`scores` (..., N, N) with `diagonal` in place of its diagonal, which thereby gets no gradient."""
    scores = ops.convert_to_tensor(scores)  # a Variable is not taken by every backend's where
    eye = ops.eye(scores.shape[-1], dtype="bool")
    return ops.where(eye, ops.cast(diagonal, scores.dtype), scores)


@keras.saving.register_keras_serializable(package="posvit_tf")
class OffDiagonalAttention(Attention):
    """softmax(A) (x W_V) a head, A_ii = diagonal fixed, A_ij trained; heads joined by W_O (paper, section 3).

    The diagonal is put in anew at each call, so no optimizer, decay or restore can move it.

    Args:
        num_heads, key_weights, gate: as `Attention`.
        diagonal: the fixed value of A_ii.
        std: standard deviation of the start of A_ij; with diagonal=0 and std=0 the map is uniform.
        train_map: whether A_ij is trained.

    Call arguments and results as `Attention`; the map is (H, R, N).
    """

    score_formula = "the matrix A_ij"

    def __init__(self, num_heads: int, diagonal=1.0, std=0.02, train_map=True, **kwargs):
        super().__init__(num_heads, **kwargs)
        self.diagonal = diagonal
        self.std = std
        self.train_map = train_map

    def build_map(self, tokens_shape, positions_shape):
        tokens = tokens_shape[1]
        self.off_diagonal = self.add_weight(
            shape=(self.num_heads, tokens, tokens),
            initializer=keras.initializers.RandomNormal(stddev=self.std),
            trainable=self.train_map,
            name="off_diagonal",
        )

    @property
    def map_variables(self) -> list[keras.Variable]:
        """A."""
        return [self.off_diagonal]

    def start_local(
        self, grid: tuple[int, int], shifts: list[tuple[int, int] | None], class_token: bool
    ) -> None:
        """A = diagonal + `local_maps.scores`, which are 0 on the diagonal."""
        scores = local_maps.scores(grid, self.head, shifts, class_token)  # (H,N,N)
        self.off_diagonal.assign(self.diagonal + scores)

    def scores(self, positions=None, tokens=None, norm=None, rows=None):
        """The first rows of A (H, N, N): the trained values off the diagonal, the fixed one on it."""
        return fixed_diagonal(self.off_diagonal, self.diagonal)[:, :rows]

    def get_config(self):
        return {
            **super().get_config(),
            "diagonal": self.diagonal,
            "std": self.std,
            "train_map": self.train_map,
        }

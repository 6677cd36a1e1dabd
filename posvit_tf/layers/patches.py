"""From an image to one token a patch."""

import keras
from keras import ops

from posvit_tf.errors import UserError


@keras.saving.register_keras_serializable(package="posvit_tf")
class PatchEmbedding(keras.layers.Layer):
    """token_n = W x_n + b, with x_n the P*P*C values of patch n, patches counted row by row.

    Args:
        width: size E of a token.
        patch_size: side P of a patch, in pixels; it must divide both sides of the image.

    Call arguments:
        images: (B, rows*P, cols*P, C).

    Returns:
        tokens (B, rows*cols, E).

    Raises:
        UserError: the patch does not divide the image.
    """

    def __init__(self, width: int, patch_size: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.patch_size = patch_size

    def build(self, input_shape):
        _, height, width, channels = input_shape
        size = self.patch_size
        if height % size or width % size:
            raise UserError(
                f"an image of {height}x{width} pixels does not divide into patches of {size}x{size}: "
                "set patch_size to a divisor of both sides"
            )
        self.grid = (height // size, width // size)
        # An image of another size could divide into the same number of patches: Keras refuses it.
        self.input_spec = keras.layers.InputSpec(shape=(None, height, width, channels))
        self.projection = keras.layers.Dense(self.width, dtype=self.dtype_policy, name="projection")
        self.projection.build((None, self.grid[0] * self.grid[1], size * size * channels))

    def call(self, images):
        (rows, cols), size, channels = self.grid, self.patch_size, images.shape[-1]
        x = ops.reshape(images, (-1, rows, size, cols, size, channels))  # (B,rows,P,cols,P,C)
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B,rows,cols,P,P,C)
        x = ops.reshape(x, (-1, rows * cols, size * size * channels))  # (B,N,P*P*C)
        return self.projection(x)  # (B,N,E)

    def get_config(self):
        return {**super().get_config(), "width": self.width, "patch_size": self.patch_size}

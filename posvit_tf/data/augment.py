"""Random crop and horizontal flip of a batch of uint8 images, as two gathers."""

import tensorflow as tf


def draw(seed: tf.Tensor, count: int, *, padding: int, flip: bool) -> tuple[tf.Tensor, ...]:
    """Draws where each of `count` images is cropped, and whether it is mirrored.

    The numbers are a pure function of `seed`, so they can be drawn for a whole batch and sliced.

    Args:
        seed: (2,) integers.
        count: number of images.
        padding: zero pixels on each side of the image from which the crop is taken.
        flip: whether half of the images are mirrored left to right.

    Returns:
        top, left: (count,) int32 in [0, 2 * padding], the crop's corner in the padded image.
        mirrored: (count,) bool.
    """
    corner_seed, flip_seed = tf.unstack(tf.random.split(seed, 2))
    corner = tf.random.stateless_uniform((2, count), corner_seed, 0, 2 * padding + 1, tf.int32)
    mirrored = tf.random.stateless_uniform((count,), flip_seed) < (0.5 if flip else 0.0)
    return corner[0], corner[1], mirrored


def crop_and_flip(
    images: tf.Tensor, top: tf.Tensor, left: tf.Tensor, mirrored: tf.Tensor, *, padding: int
) -> tf.Tensor:
    """Crops each zero-padded image at its own corner to its old size and mirrors those marked.

    Args:
        images: (B, H, W, C) of any type.
        top, left, mirrored: (B,) each, from `draw`.
        padding: as given to `draw`.

    Returns:
        (B, H, W, C) of the same type.
    """
    _, height, width, _ = images.shape
    around = (padding, padding)
    images = tf.pad(images, ((0, 0), around, around, (0, 0)))  # (B,H+2p,W+2p,C)
    rows = top[:, None] + tf.range(height)  # (B,H)
    columns = tf.range(width)
    columns = tf.where(mirrored[:, None], columns[::-1], columns)  # (B,W)
    columns += left[:, None]
    images = tf.gather(images, rows, axis=1, batch_dims=1)  # (B,H,W+2p,C)
    return tf.gather(images, columns, axis=2, batch_dims=1)  # (B,H,W,C)

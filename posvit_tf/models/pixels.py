"""What every image model starts with, so that training, evaluation and export share it."""

import keras


def normalised(image_shape: tuple[int, int, int], mean: tuple[float, ...], std: tuple[float, ...]):
    """(x - mean) / std of uint8 pixels, as the first layers of a functional model.

    Args:
        image_shape: (H, W, C) in pixels.
        mean, std: a number a channel, in units of 0..255.

    Returns:
        The model's input, uint8 (B, H, W, C), and the normalised images, float32 (B, H, W, C).
    """
    images = keras.Input(image_shape, dtype="uint8", name="images")
    normalise = keras.layers.Normalization(
        mean=mean, variance=[s * s for s in std], dtype="float32", name="normalization"
    )
    return images, normalise(images)

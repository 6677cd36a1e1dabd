"""AutoAugment: two operations an image, from a policy learned for a data set, on a batch in the graph.

Cubuk et al. 2018 (arXiv 1805.09501): the policies are those of its appendix for CIFAR-10 and SVHN, 25
pairs each. An operation has a probability and a level m = 0 to 9, which is

    ShearX, ShearY           +- 0.3 m/9, about the upper left corner
    TranslateX, TranslateY   +- 150/331 m/9 of the image's side
    Rotate                   +- 30 m/9 degrees
    Brightness, Color, Contrast, Sharpness   the factor 1 +- 0.9 m/9
    Posterize                8 - round(4 m/9) bits stay
    Solarize                 values from 256 (1 - m/9) on are inverted
    AutoContrast, Equalize, Invert           no level

These are the paper's ranges, read as most public code has it: either sign with probability 1/2, and a
translation that is measured on the paper's 331 pixels. Pixels from outside the image are 128. Every
operation gives the bytes that Pillow gives.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

FILL = 128
ONE = 1 << 16  # Pillow's fixed point: a coordinate in units of 1/65536 pixel

Step = tuple[str, float, int]  # operation, probability, level

POLICIES: dict[str, tuple[tuple[Step, Step], ...]] = {
    "cifar10": (
        (("Invert", 0.1, 0), ("Contrast", 0.2, 6)),
        (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
        (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
        (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.5, 0), ("Equalize", 0.9, 0)),
        (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
        (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
        (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
        (("Equalize", 0.6, 0), ("Equalize", 0.5, 0)),
        (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
        (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
        (("Equalize", 0.3, 0), ("AutoContrast", 0.4, 0)),
        (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
        (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
        (("Solarize", 0.5, 2), ("Invert", 0.0, 0)),
        (("Equalize", 0.2, 0), ("AutoContrast", 0.6, 0)),
        (("Equalize", 0.2, 0), ("Equalize", 0.6, 0)),
        (("Color", 0.9, 9), ("Equalize", 0.6, 0)),
        (("AutoContrast", 0.8, 0), ("Solarize", 0.2, 8)),
        (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
        (("Solarize", 0.4, 5), ("AutoContrast", 0.9, 0)),
        (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.9, 0), ("Solarize", 0.8, 3)),
        (("Equalize", 0.8, 0), ("Invert", 0.1, 0)),
        (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 0)),
    ),
    "svhn": (
        (("ShearX", 0.9, 4), ("Invert", 0.2, 0)),
        (("ShearY", 0.9, 8), ("Invert", 0.7, 0)),
        (("Equalize", 0.6, 0), ("Solarize", 0.6, 6)),
        (("Invert", 0.9, 0), ("Equalize", 0.6, 0)),
        (("Equalize", 0.6, 0), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("AutoContrast", 0.8, 0)),
        (("ShearY", 0.9, 8), ("Invert", 0.4, 0)),
        (("ShearY", 0.9, 5), ("Solarize", 0.2, 6)),
        (("Invert", 0.9, 0), ("AutoContrast", 0.8, 0)),
        (("Equalize", 0.6, 0), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("Solarize", 0.3, 3)),
        (("ShearY", 0.8, 8), ("Invert", 0.7, 0)),
        (("Equalize", 0.9, 0), ("TranslateY", 0.6, 6)),
        (("Invert", 0.9, 0), ("Equalize", 0.6, 0)),
        (("Contrast", 0.3, 3), ("Rotate", 0.8, 4)),
        (("Invert", 0.8, 0), ("TranslateY", 0.0, 2)),
        (("ShearY", 0.7, 6), ("Solarize", 0.4, 8)),
        (("Invert", 0.6, 0), ("Rotate", 0.8, 4)),
        (("ShearY", 0.3, 7), ("TranslateX", 0.9, 3)),
        (("ShearX", 0.1, 6), ("Invert", 0.6, 0)),
        (("Solarize", 0.7, 2), ("TranslateY", 0.6, 7)),
        (("ShearY", 0.8, 4), ("Invert", 0.8, 0)),
        (("ShearX", 0.7, 9), ("TranslateY", 0.8, 3)),
        (("ShearY", 0.8, 5), ("AutoContrast", 0.7, 0)),
        (("ShearX", 0.7, 2), ("Invert", 0.1, 0)),
    ),
}


class Operations(NamedTuple):
    """R operations as rows of numbers; the first leaves an image as it is.

    Attributes:
        name: (R,) of the operation, "" of the first.
        affine: (R, 6) int32, where a pixel is taken from: (x, y) -> (a x + b y + c, d x + e y + f),
            in 1/65536 pixel.
        factor: (R,) float32, of the image in its mixture with a plainer one.
        table: (R, 256) uint8, the new value of each value.
    """

    name: np.ndarray
    affine: np.ndarray
    factor: np.ndarray
    table: np.ndarray


def operations(calls: list[tuple[str, int, int]], height: int, width: int) -> Operations:
    """Operations (name, level, sign +1 or -1) on images of height x width pixels."""
    rows = [("", *_row("", 0, 1, height, width))]
    rows += [(name, *_row(name, level, sign, height, width)) for name, level, sign in calls]
    names, affines, factors, tables = zip(*rows, strict=True)
    return Operations(
        np.array(names), np.stack(affines), np.array(factors, "float32"), np.stack(tables)
    )


def _row(name: str, level: int, sign: int, height: int, width: int):
    share = level / 9
    affine = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    factor, table = 1.0, np.arange(256)
    if name == "ShearX":
        affine[1] = sign * 0.3 * share
    elif name == "ShearY":
        affine[3] = sign * 0.3 * share
    elif name == "TranslateX":
        affine[2] = sign * 150 / 331 * share * width
    elif name == "TranslateY":
        affine[5] = sign * 150 / 331 * share * height
    elif name == "Rotate":  # about the centre, counter-clockwise for a positive sign
        angle, x, y = -math.radians(sign * 30 * share), width / 2, height / 2
        a, b = math.cos(angle), math.sin(angle)
        affine = [a, b, x - a * x - b * y, -b, a, y + b * x - a * y]
    elif name == "Posterize":
        table = table & (256 - (1 << round(4 * share)))
    elif name == "Solarize":
        table = np.where(table < 256 * (1 - share), table, 255 - table)
    elif name == "Invert":
        table = 255 - table
    elif name in ("Brightness", "Color", "Contrast", "Sharpness"):
        factor = 1 + sign * 0.9 * share
    a, b, c, d, e, f = affine
    centred = np.array([a, b, c + (a + b) / 2, d, e, f + (d + e) / 2])  # of a pixel's middle
    return np.floor(centred * ONE + 0.5).astype("int32"), factor, table.astype("uint8")


def of_policy(policy: str, height: int, width: int) -> Operations:
    """Row 1 + 4 i + 2 k + s: step k of pair i of POLICIES[policy], s = 1 for a positive sign."""
    steps = [step for pair in POLICIES[policy] for step in pair]
    calls = [(name, level, sign) for name, _, level in steps for sign in (-1, 1)]
    return operations(calls, height, width)


def draw(seed: tf.Tensor, count: int, policy: str) -> list[tf.Tensor]:
    """Draws a pair of the policy for each of `count` images, whether each step is done, and its sign.

    The numbers are a pure function of `seed`, so they can be drawn for a whole batch and sliced.

    Args:
        seed: (2,) integers.
        count: number of images.
        policy: a key of POLICIES.

    Returns:
        For each of the two steps, the rows (count,) int32 of `of_policy`.
    """
    pairs = POLICIES[policy]
    chances = np.array([[step[1] for step in pair] for pair in pairs], "float32")  # (25,2)
    pair_seed, chance_seed, sign_seed = tf.unstack(tf.random.split(seed, 3))
    pair = tf.random.stateless_uniform((count,), pair_seed, 0, len(pairs), tf.int32)
    done = tf.random.stateless_uniform((count, 2), chance_seed) < tf.gather(chances, pair)
    sign = tf.random.stateless_uniform((count, 2), sign_seed, 0, 2, tf.int32)
    rows = 1 + 4 * pair[:, None] + [[0, 2]] + sign  # (count,2)
    return tf.unstack(tf.where(done, rows, 0), axis=1)


def apply(images: tf.Tensor, rows: tf.Tensor, ops: Operations) -> tf.Tensor:
    """Each image after its own operation.

    All operations are three steps, each of which leaves an image alone where it has no part: pixels
    change places, are mixed with a plainer image, and are looked up in a table.

    Args:
        images: (B, H, W, 3) uint8.
        rows: (B,) of `ops`.

    Returns:
        (B, H, W, 3) uint8.
    """

    def chosen(*names: str) -> tf.Tensor:  # (B,1,1,1)
        return tf.gather(np.isin(ops.name, names), rows)[:, None, None, None]

    x = tf.cast(_moved(images, tf.gather(ops.affine, rows)), tf.int32)  # (B,H,W,3)
    grey = tf.reduce_sum(x * [19595, 38470, 7471], axis=-1, keepdims=True)  # (B,H,W,1)
    grey = (grey + ONE // 2) // ONE
    pixels = x.shape[1] * x.shape[2]
    mean = tf.reduce_sum(grey, axis=(1, 2), keepdims=True)  # (B,1,1,1)
    mean = (2 * mean + pixels) // (2 * pixels)
    plainer = tf.where(chosen("Color"), grey, 0)
    plainer = tf.where(chosen("Contrast"), mean, plainer)
    plainer = tf.where(chosen("Sharpness"), _smooth(x), plainer)  # (B,H,W,3)
    factor = tf.gather(ops.factor, rows)[:, None, None, None]
    mixed = tf.cast(plainer, tf.float32) + factor * tf.cast(x - plainer, tf.float32)
    x = tf.cast(tf.clip_by_value(mixed, 0.0, 255.0), tf.int32)  # (B,H,W,3)

    # the place of each pixel's value in the tables of all images and channels
    batch = tf.shape(x)[0]
    place = x + 256 * tf.reshape(tf.range(3 * batch), (batch, 1, 1, 3))  # (B,H,W,3)
    counts = tf.math.bincount(
        tf.reshape(place, (-1,)), minlength=768 * batch, maxlength=768 * batch
    )
    counts = tf.reshape(counts, (batch, 3, 256))
    low, high = (f(x, axis=(1, 2))[..., None] for f in (tf.reduce_min, tf.reduce_max))  # (B,3,1)
    table = tf.cast(tf.gather(ops.table, rows), tf.int32)[:, None]  # (B,1,256)
    table = tf.where(chosen("AutoContrast")[..., 0], _stretched(low, high), table)
    table = tf.where(chosen("Equalize")[..., 0], _equalised(counts, high), table)  # (B,3,256)
    return tf.cast(tf.gather(tf.reshape(table, (-1,)), place), tf.uint8)  # (B,H,W,3)


def _moved(images: tf.Tensor, affine: tf.Tensor) -> tf.Tensor:
    """Nearest pixels (B, H, W, 3) at the places that affine (B, 6) names."""
    _, height, width, channels = images.shape
    a, b, c, d, e, f = tf.unstack(affine[:, :, None, None], axis=1)  # (B,1,1) each
    x, y = tf.range(width), tf.range(height)[:, None]
    column = (a * x + b * y + c) // ONE  # (B,H,W)
    row = (d * x + e * y + f) // ONE
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    place = tf.where(inside, row * width + column, 0)  # (B,H,W)
    flat = tf.reshape(images, (-1, height * width, channels))  # (B,H*W,3)
    moved = tf.gather(flat, place, batch_dims=1)  # (B,H,W,3)
    return tf.where(inside[..., None], moved, tf.constant(FILL, tf.uint8))


def _smooth(x: tf.Tensor) -> tf.Tensor:
    """(sum of the 3x3 around a pixel + 4 of its own) / 13, the border as it is: (B, H, W, 3) int32."""
    columns = x[:, :-2] + x[:, 1:-1] + x[:, 2:]  # (B,H-2,W,3)
    total = columns[:, :, :-2] + columns[:, :, 1:-1] + columns[:, :, 2:]  # (B,H-2,W-2,3)
    total += 4 * x[:, 1:-1, 1:-1]
    middle = (2 * total + 13) // 26  # rounded
    rows = tf.concat([x[:, 1:-1, :1], middle, x[:, 1:-1, -1:]], axis=2)  # (B,H-2,W,3)
    return tf.concat([x[:, :1], rows, x[:, -1:]], axis=1)  # (B,H,W,3)


def _stretched(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """The table (B, 3, 256) that takes low to 0 and high to 255, (B, 3, 1) int32 each."""
    values = tf.range(256)
    scale = 255.0 / tf.cast(tf.maximum(high - low, 1), tf.float64)
    line = tf.cast(values, tf.float64) * scale + -tf.cast(low, tf.float64) * scale
    line = tf.clip_by_value(tf.cast(line, tf.int32), 0, 255)
    return tf.where(high > low, line, values)


def _equalised(counts: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """The table (B, 3, 256) that makes all values as frequent; counts of each (B, 3, 256) int32."""
    values = tf.range(256)
    last = tf.gather(counts, high, batch_dims=2)  # (B,3,1)
    step = (tf.reduce_sum(counts, axis=-1, keepdims=True) - last) // 255  # (B,3,1)
    below = tf.cumsum(counts, axis=-1, exclusive=True)  # (B,3,256)
    even = tf.minimum((step // 2 + below) // tf.maximum(step, 1), 255)
    return tf.where(step > 0, even, values)

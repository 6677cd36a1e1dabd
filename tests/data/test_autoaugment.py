import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from posvit_tf.data import autoaugment

HEIGHT, WIDTH = 24, 40


def affine(image, *matrix):
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=(128,) * 3
    )


# name -> what Pillow makes of an image, the share of the largest level, and the sign
PILLOW = {
    "ShearX": lambda i, m, s: affine(i, 1, s * 0.3 * m, 0, 0, 1, 0),
    "ShearY": lambda i, m, s: affine(i, 1, 0, 0, s * 0.3 * m, 1, 0),
    "TranslateX": lambda i, m, s: affine(i, 1, 0, s * 150 / 331 * m * WIDTH, 0, 1, 0),
    "TranslateY": lambda i, m, s: affine(i, 1, 0, 0, 0, 1, s * 150 / 331 * m * HEIGHT),
    "Rotate": lambda i, m, s: i.rotate(s * 30 * m, fillcolor=(128,) * 3),
    "Brightness": lambda i, m, s: ImageEnhance.Brightness(i).enhance(1 + s * 0.9 * m),
    "Color": lambda i, m, s: ImageEnhance.Color(i).enhance(1 + s * 0.9 * m),
    "Contrast": lambda i, m, s: ImageEnhance.Contrast(i).enhance(1 + s * 0.9 * m),
    "Sharpness": lambda i, m, s: ImageEnhance.Sharpness(i).enhance(1 + s * 0.9 * m),
    "Posterize": lambda i, m, s: ImageOps.posterize(i, 8 - round(4 * m)),
    "Solarize": lambda i, m, s: ImageOps.solarize(i, 256 * (1 - m)),
    "AutoContrast": lambda i, m, s: ImageOps.autocontrast(i),
    "Equalize": lambda i, m, s: ImageOps.equalize(i),
    "Invert": lambda i, m, s: ImageOps.invert(i),
}


@pytest.fixture(scope="module")
def pictures():
    """Noise, noise of low contrast, a ramp, two values, one value, and few of many pixels."""
    rng = np.random.default_rng(0)
    shape = (HEIGHT, WIDTH, 3)
    ramp = np.add.outer(np.arange(HEIGHT) * 3, np.arange(WIDTH) * 4)[..., None] + [0, 5, 11]
    return np.stack(
        [
            rng.integers(0, 256, shape),
            rng.integers(90, 131, shape),
            ramp,
            rng.choice([20, 200], shape),
            np.full(shape, 77),
            np.where(rng.random(shape) < 0.01, rng.integers(0, 256, shape), 30),
        ]
    ).astype("uint8")


@pytest.mark.parametrize("name", PILLOW)
def test_an_operation_gives_the_bytes_of_pillow(name, pictures):
    calls = [(name, level, sign) for level in range(10) for sign in (-1, 1)]
    ops = autoaugment.operations(calls, HEIGHT, WIDTH)
    images = np.repeat(pictures, len(calls), axis=0)
    rows = np.tile(np.arange(1, len(calls) + 1), len(pictures))
    found = autoaugment.apply(tf.constant(images), tf.constant(rows), ops).numpy()
    for image, row, after in zip(images, rows, found, strict=True):
        _, level, sign = calls[row - 1]
        expected = PILLOW[name](Image.fromarray(image), level / 9, sign)
        np.testing.assert_array_equal(after, np.asarray(expected), err_msg=str(calls[row - 1]))
    assert (found != images).any()


@pytest.mark.parametrize("policy", autoaugment.POLICIES)
def test_a_policy_names_operations_that_there_are(policy):
    pairs = autoaugment.POLICIES[policy]
    assert len(pairs) == 25
    for name, chance, level in (step for pair in pairs for step in pair):
        assert name in PILLOW and 0 <= chance < 1 and level in range(10)


def test_a_draw_follows_the_policy():
    count = 50_000
    first, second = autoaugment.draw(tf.constant([1, 2]), count, "cifar10")
    ops = autoaugment.of_policy("cifar10", HEIGHT, WIDTH)
    # of pair 1, (Rotate, 0.7, 2) and (TranslateX, 0.3, 9)
    for rows, start, name, chance in ((first, 5, "Rotate", 0.7), (second, 7, "TranslateX", 0.3)):
        assert list(ops.name[start : start + 2]) == [name, name]
        for row in (start, start + 1):
            assert np.mean(rows == row) == pytest.approx(chance / 25 / 2, abs=0.002)
    both = np.mean((first.numpy() > 0) & (second.numpy() > 0))
    pairs = autoaugment.POLICIES["cifar10"]
    assert both == pytest.approx(np.mean([a[1] * b[1] for a, b in pairs]), abs=0.01)


def test_row_zero_changes_nothing(pictures):
    ops = autoaugment.of_policy("svhn", HEIGHT, WIDTH)
    rows = tf.zeros(len(pictures), tf.int32)
    np.testing.assert_array_equal(autoaugment.apply(tf.constant(pictures), rows, ops), pictures)

import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.data import augment


@pytest.mark.parametrize("shape", [(6, 8, 8, 1), (6, 5, 9, 3)])
@pytest.mark.parametrize(("padding", "flip"), [(2, True), (3, False), (0, True), (0, False)])
def test_crop_and_flip_equals_a_loop_over_the_images(shape, padding, flip):
    count, height, width, _ = shape
    images = np.random.default_rng(0).integers(1, 256, shape, dtype=np.uint8)
    top, left, mirrored = augment.draw(tf.constant([3, 4]), count, padding=padding, flip=flip)

    expected = np.zeros_like(images)
    for i in range(count):
        padded = np.pad(images[i], ((padding, padding), (padding, padding), (0, 0)))
        crop = padded[int(top[i]) :, int(left[i]) :][:height, :width]
        expected[i] = crop[:, ::-1] if mirrored[i] else crop

    result = augment.crop_and_flip(images, top, left, mirrored, padding=padding)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == tf.uint8


def test_draw_reaches_every_corner_and_mirrors_half():
    top, left, mirrored = augment.draw(tf.constant([0, 1]), 2000, padding=4, flip=True)
    assert set(top.numpy()) == set(left.numpy()) == set(range(9))
    assert 0.45 < np.mean(mirrored) < 0.55
    # Independent of one another: each pair differs as often as chance has it.
    assert np.mean(top == left) == pytest.approx(1 / 9, abs=0.03)
    assert np.mean((top.numpy() % 2 == 0) == mirrored.numpy()) == pytest.approx(0.5, abs=0.05)


def test_without_flip_none_is_mirrored():
    _, _, mirrored = augment.draw(tf.constant([0, 1]), 200, padding=4, flip=False)
    assert not np.any(mirrored)

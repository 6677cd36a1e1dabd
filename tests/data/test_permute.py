import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.data import images, permute
from posvit_tf.data.splits import Split
from posvit_tf.errors import UserError

LARGE, WIDE = (64, 96), (6, 10)


@pytest.mark.parametrize(
    ("grid", "cell"), [(LARGE, c) for c in (1, 2, 4, 8, 16, 32)] + [(WIDE, c) for c in (1, 2)]
)
def test_cells_move_whole_and_the_inverse_brings_them_back_bit_for_bit(grid, cell):
    pixels = np.random.default_rng(0).integers(0, 256, (3, *grid, 3), dtype=np.uint8)
    order = permute.cell_order(grid, cell, seed=1)
    moved = permute.permuted(pixels, order)
    np.testing.assert_array_equal(permute.permuted(moved, np.argsort(order)), pixels)
    np.testing.assert_array_equal(images.permuted_in_graph(tf.constant(pixels), order), moved)

    def cells(array):  # the cells' bytes, in reading order
        rows, cols = grid[0] // cell, grid[1] // cell
        parts = array.reshape(3, rows, cell, cols, cell, 3).transpose(1, 3, 0, 2, 4, 5)
        return [part.tobytes() for part in parts.reshape(rows * cols, -1)]

    before, after = cells(pixels), cells(moved)
    assert sorted(before) == sorted(after)
    assert before != after
    assert (permute.cell_order(grid, cell, seed=2) != order).any()


def test_the_order_is_the_same_in_every_process():
    # the four cells in the order 3 0 2 1
    expected = [10, 11, 0, 1, 14, 15, 4, 5, 8, 9, 2, 3, 12, 13, 6, 7]
    assert permute.cell_order((4, 4), 2, seed=0).tolist() == expected


def test_a_map_and_a_table_come_back_to_the_true_places():
    shape, patch, cell = (8, 12), 2, 4
    rows, cols = grid = shape[0] // patch, shape[1] // patch
    # the brightness of a pixel says which patch it was of
    names = np.arange(rows * cols, dtype=np.uint8).reshape(grid)
    pixels = names.repeat(patch, axis=0).repeat(patch, axis=1)[None, ..., None]  # (1,8,12,1)
    moved = permute.permuted(pixels, permute.cell_order(shape, cell, seed=0))
    seen = moved[0, ::patch, ::patch, 0].reshape(-1)  # (N,): the true patch at each place

    order = permute.cell_order(grid, cell // patch, seed=0)
    np.testing.assert_array_equal(seen, order)
    # A model sees patch i attend to true patch 17, wherever that has gone.
    maps = (seen == 17)[None, None].repeat(rows * cols, axis=1).astype(float)  # (1,N,N)
    maps[0, np.flatnonzero(seen == 3)] *= 2.0
    back = permute.unpermute_map(maps, order)
    expected = np.zeros_like(back)
    expected[..., 17] = 1.0
    expected[0, 3, 17] = 2.0
    np.testing.assert_array_equal(back, expected)
    np.testing.assert_array_equal(
        permute.unpermute_table(seen[:, None], order)[:, 0], np.arange(rows * cols)
    )


def test_cells_that_do_not_fill_the_image_are_refused():
    with pytest.raises(UserError, match="3x3.*cell_size.*32x30"):
        permute.cell_order((32, 30), 3, seed=0)


@pytest.fixture
def split():
    pixels = np.random.default_rng(0).integers(1, 256, (40, 8, 12, 3), dtype=np.uint8)
    return Split(pixels, np.zeros(40, np.int32))


ORDER = permute.cell_order((8, 12), 2, seed=3)


def test_training_is_permuted_after_the_crop_or_before_by_a_switch(split):
    def batch(split, **permutation):
        options = dict(batch_size=20, accumulate=2, seed=0, crop_padding=1, flip=True)
        dataset = images.train_dataset(split, start_update=0, **options, **permutation)
        return next(dataset.as_numpy_iterator())[0].reshape(40, 8, 12, 3)

    cropped = batch(split)
    np.testing.assert_array_equal(batch(split, order=ORDER), permute.permuted(cropped, ORDER))
    moved = Split(permute.permuted(split.images, ORDER), split.labels)
    np.testing.assert_array_equal(batch(split, order=ORDER, permute_first=True), batch(moved))


def test_evaluation_images_are_permuted_alike(split):
    batches = images.eval_dataset(split, batch_size=16, order=ORDER)
    found = np.concatenate([images for images, _ in batches.as_numpy_iterator()])[:40]
    np.testing.assert_array_equal(found, permute.permuted(split.images, ORDER))

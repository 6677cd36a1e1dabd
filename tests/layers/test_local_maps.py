import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.layers import local_maps


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize(
    ("grid", "heads", "head"),
    [((8, 8), 6, 16), ((4, 8), 12, 9), ((7, 3), 2, 4), ((1, 5), 4, 2), ((14, 14), 3, 64)],
)
def test_each_head_looks_at_the_cell_at_its_shift(grid, heads, head, class_token):
    shifts = local_maps.head_shifts(heads, layer=0)
    maps = softmax(local_maps.scores(grid, head, shifts, class_token))
    if class_token:
        np.testing.assert_allclose(maps[:, 0], 1 / maps.shape[-1], rtol=1e-6)  # its row is flat
        assert maps[:-1, 1:, 0].max() < 1 / maps.shape[-1]  # and its column below that
        maps = maps[:, 1:, 1:]
    np.testing.assert_allclose(maps[-1], maps[-1, 0, 0])
    cells = np.indices(grid).reshape(2, -1).T
    for attention, shift in zip(maps[:-1], shifts[:-1], strict=True):
        target = np.clip(cells + shift, 0, np.subtract(grid, 1))  # the nearest cell that there is
        np.testing.assert_array_equal(cells[attention.argmax(axis=-1)], target)


@pytest.mark.parametrize("head", [4, 12, 16])
def test_a_neighbour_of_the_top_has_the_sharpness_less_whatever_the_size_of_a_head(head):
    scores = local_maps.scores((6, 8), head, [(0, 1)], class_token=False).reshape(6, 8, 6, 8)
    np.testing.assert_allclose(scores[2, 3, 2, 3], 0, atol=1e-5)  # the diagonal
    np.testing.assert_allclose(scores[2, 3, 2, 4], local_maps.SHARPNESS, rtol=1e-4)  # the top
    for row, col in ((2, 5), (1, 4), (3, 4)):
        np.testing.assert_allclose(scores[2, 3, row, col], 0, atol=1e-4)


def test_layers_share_the_shifts_among_their_heads():
    middle, down, up, right, left = local_maps.SHIFTS
    assert local_maps.head_shifts(6, 3) == [middle, down, up, right, left, None]
    assert local_maps.head_shifts(3, 0) == [middle, down, None]
    assert local_maps.head_shifts(3, 1) == [up, right, None]
    assert local_maps.head_shifts(3, 2) == [left, middle, None]
    assert local_maps.head_shifts(1, 4) == [left]


def test_a_head_without_room_for_both_axes_is_refused():
    with pytest.raises(UserError, match=r"grid of 8x8 need 4 numbers a head, not 3"):
        local_maps.scores((8, 8), 3, [(0, 0)], class_token=False)

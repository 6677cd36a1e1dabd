import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.layers import ClassToken, PositionTable, sincos_table
from posvit_tf.layers.positions import resampling


def test_sincos_table_holds_row_then_column_of_each_patch():
    table = sincos_table((2, 3), 8, class_token=False)
    assert table.shape == (6, 8)
    np.testing.assert_array_equal(table[0], [0, 0, 1, 1, 0, 0, 1, 1])
    # Row 1, column 2, at the frequencies 1 and 0.01.
    expected = [0.841471, 0.01, 0.540302, 0.99995, 0.909297, 0.019999, -0.416147, 0.9998]
    np.testing.assert_allclose(table[5], expected, atol=1e-6)


def test_sincos_table_of_a_layer_has_a_zero_row_for_the_class_token():
    layer = PositionTable((2, 3), kind="sincos", class_token=True)
    table = layer(np.zeros((1, 7, 8), "float32"))
    np.testing.assert_array_equal(table[0], np.zeros(8))
    np.testing.assert_array_equal(table[1:], sincos_table((2, 3), 8, class_token=False))


def test_learned_table_starts_with_the_standard_deviation_asked_for():
    table = PositionTable((20, 20), std=0.02)(np.zeros((1, 400, 16), "float32"))
    assert np.std(table) == pytest.approx(0.02, rel=0.05)


def test_unusable_tables_are_refused():
    with pytest.raises(UserError, match=r"multiple of 4, not 6\b"):
        sincos_table((2, 3), 6, class_token=False)
    with pytest.raises(UserError, match="kind=rope"):
        PositionTable((2, 3), kind="rope")


def test_class_token_comes_first_and_is_the_same_for_every_example(rng, randomise):
    tokens = rng.normal(size=(3, 6, 8)).astype("float32")
    layer = ClassToken()
    layer.build(tokens.shape)
    output = randomise(layer)(tokens)
    np.testing.assert_array_equal(output[:, 1:], tokens)
    np.testing.assert_array_equal(output[:, 0], np.repeat(layer.get_weights()[0][0], 3, axis=0))


def test_resampling_keeps_ramps_over_rows_and_columns_away_from_the_border():
    grid, new_grid = (6, 8), (12, 12)
    centres, new_centres = (
        (np.moveaxis(np.indices(g), 0, -1) + 0.5) / g  # (rows,cols,2), in parts of the picture
        for g in (grid, new_grid)
    )
    found = resampling(grid, new_grid, class_token=False) @ centres.reshape(48, 2)
    inner = np.s_[3:-3, 3:-3]
    np.testing.assert_allclose(found.reshape(12, 12, 2)[inner], new_centres[inner])
    # fewer cells look at all that they cover: stripes do not survive
    np.testing.assert_allclose(resampling((12, 1), (3, 1), False) @ ([0, 1] * 6), 0.5, atol=0.05)


def test_resampling_to_the_same_grid_is_exact_and_the_class_row_stays():
    np.testing.assert_array_equal(resampling((3, 5), (3, 5), class_token=True), np.eye(16))
    matrix = resampling((2, 3), (3, 2), class_token=True)  # as many cells, another grid
    assert matrix.shape == (7, 7)
    np.testing.assert_array_equal(matrix[0], np.eye(7)[0])
    np.testing.assert_array_equal(matrix[:, 0], np.eye(7)[0])
    assert np.abs(matrix - np.eye(7)).max() > 0.1


def test_a_resampled_map_peaks_at_the_cell_that_covers_the_same_place(rng):
    # Position (r, c) of 4x5 looks at its right neighbour; on 8x10 two cells to the right then.
    grid, new_grid = (4, 5), (8, 10)
    scores = np.zeros((21, 21))
    for r, c in np.ndindex(4, 4):
        scores[1 + r * 5 + c, 1 + r * 5 + c + 1] = 1.0
    matrix = resampling(grid, new_grid, class_token=True)
    found = matrix @ scores @ matrix.T  # (81,81)
    for r, c in np.ndindex(8, 6):
        peak = np.unravel_index(found[1 + r * 10 + c + 1, 1:].argmax(), new_grid)
        assert abs(peak[0] - r) <= 1 and peak[1] - (c + 1) in (1, 2, 3), (r, c, peak)
    # the scores of a resampled table are the resampled scores
    table, product = rng.normal(size=(21, 4)), rng.normal(size=(4, 4))
    np.testing.assert_allclose(
        (matrix @ table) @ product @ (matrix @ table).T,
        matrix @ (table @ product @ table.T) @ matrix.T,
    )

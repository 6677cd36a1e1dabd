import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.layers import ClassToken, PositionTable, sincos_table


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

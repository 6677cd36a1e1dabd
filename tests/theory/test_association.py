"""Overlap of top scores with the sets."""

import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.theory import association

PARTITION = np.array([0, 1, 0, 1, 2, 2, 0, 1, 2])


def rng():
    return np.random.default_rng(0)


def test_block_scores_are_exact_and_one_wrong_row_is_not():
    scores = (PARTITION[:, None] == PARTITION).astype(float)
    assert association.overlap(scores, PARTITION, rng()) == 1
    assert association.exact(scores, PARTITION, rng())
    scores[0, 1] = 2.0  # ousts one of the two right ones of one row in nine
    assert association.overlap(scores, PARTITION, rng()) == pytest.approx(1 - 0.5 / 9)
    assert not association.exact(scores, PARTITION, rng())


def test_the_diagonal_is_left_out_unless_asked_for():
    scores = 10 * np.eye(9) + (PARTITION[:, None] != PARTITION)
    assert association.overlap(scores, PARTITION, rng()) == 0
    assert association.overlap_with_self(scores, PARTITION, rng()) == pytest.approx(1 / 3)
    assert scores[0, 0] == 10  # the caller's array is left alone


def test_ties_do_not_flatter_sets_in_order():
    partition = np.repeat(np.arange(64), 4)
    found = association.overlap(np.zeros((256, 256)), partition, rng())
    assert found == pytest.approx(association.chance(256, 4), abs=0.01)
    assert association.chance(256, 4) == 3 / 255


def test_encodings_count_by_their_products():
    encodings = np.eye(3)[PARTITION] + 0.01 * rng().standard_normal((9, 3))
    assert association.overlap(association.gram(encodings), PARTITION, rng()) == 1


def test_nan_is_refused():
    with pytest.raises(UserError, match="NaN"):
        association.overlap(np.full((9, 9), np.nan), PARTITION, rng())


def test_tied_values_are_means_without_the_diagonal():
    A = np.where(PARTITION[:, None] == PARTITION, 2.0, -1.0)
    np.fill_diagonal(A, 50.0)
    assert association.tied_values(A, PARTITION) == (2.0, -1.0)

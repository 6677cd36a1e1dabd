"""The bars that a run has to beat, and the construction without association."""

import math

import numpy as np
import pytest

from posvit_tf.data.spatial import Spatial, random_partition, target, unit_vector
from posvit_tf.theory import association, baselines


@pytest.mark.parametrize(
    "q, linear, aware",
    [(math.log(100) / 10, 0.156, 0.091), (math.log(100) / 20, 0.0784, 0.0255)],
)
def test_the_two_bars_of_figure_4(q, linear, aware):
    assert baselines.linear_error(10, 2, q) == pytest.approx(linear, abs=5e-4)
    assert baselines.set_aware_error(10, 2, q) == pytest.approx(aware, abs=5e-4)


@pytest.mark.parametrize("D, C, q", [(12, 3, 0.4), (24, 12, 0.9)])
def test_exact_errors_agree_with_samples(D, C, q):
    rng = np.random.default_rng(0)
    data = Spatial(random_partition(D, C, rng), unit_vector(3, rng), q, 0.0)
    x, y = data.signs(100_000, rng)
    vote = baselines.error_rate(x.sum(axis=1), y)
    aware = baselines.error_rate(target(x, data.partition), y)
    assert baselines.linear_error(D, C, q) == pytest.approx(vote, abs=0.005)
    assert baselines.set_aware_error(D, C, q) == pytest.approx(aware, abs=0.005)


def test_a_tie_counts_one_half():
    y = np.array([1, -1, 1, -1])
    assert baselines.error_rate(np.array([0.0, 0.0, 2.0, 3.0]), y) == 0.5


def test_fitted_linear_rule_finds_a_linear_label():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4, 3))
    y = np.sign(X[:, 0, 0] + X[:, 1, 1])
    assert baselines.fitted_linear_error(X[:400], y[:400], X[400:], y[400:]) < 0.06


def test_the_construction_gives_the_same_row_sums_without_association():
    partition = random_partition(12, 3, np.random.default_rng(0))
    own, next_ = (baselines.block_attention(partition, 10.0, 2.0, shift) for shift in (0, 1))
    overlaps = [association.overlap(A, partition, np.random.default_rng(0)) for A in (own, next_)]
    assert overlaps == [1, 0]
    assert (np.diag(own) == 2).all() and (np.diag(next_) == 2).all()

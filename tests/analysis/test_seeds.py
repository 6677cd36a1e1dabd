import numpy as np
import pytest
from scipy import stats

from posvit_tf.analysis.seeds import over_seeds, paired, spread


def test_spread_is_of_a_sample():
    found = spread([1.0, 2.0, 4.0])
    assert (found["n"], found["median"], found["q1"], found["q3"]) == (3, 2.0, 1.5, 3.0)
    assert found["std"] == pytest.approx(np.sqrt(7 / 3))


def test_paired_interval_is_that_of_the_t_test():
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(2, 5))
    found = paired(x, b)
    expected = stats.ttest_rel(x, b).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))


def test_one_seed_has_no_spread():
    found = paired([0.5], [0.25])
    assert found["mean"] == 0.25
    assert found["std"] is found["low"] is found["high"] is None


def test_over_seeds_keeps_what_never_came():
    assert over_seeds([1.0, None, 3.0]) == {
        "mean": 2.0,
        "std": pytest.approx(2**0.5),
        "min": 1.0,
        "max": 3.0,
        "per_seed": [1.0, None, 3.0],
    }
    assert over_seeds([None])["mean"] is None

"""The distribution: sets, labels, noise, and what it refuses."""

import numpy as np
import pytest

from posvit_tf.data.spatial import (
    Gaussian,
    Spatial,
    contiguous_partition,
    grid_shape,
    random_partition,
    target,
    unit_vector,
)
from posvit_tf.errors import UserError


def spatial(D=16, C=4, d=6, q=0.25, sigma=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return Spatial(random_partition(D, C, rng), unit_vector(d, rng), q, sigma), rng


@pytest.mark.parametrize(
    "D, C, grid, block",
    [
        (64, 4, (8, 8), (2, 2)),
        (32, 4, (4, 8), (2, 2)),
        (36, 6, (6, 6), (2, 3)),
        (10, 2, (2, 5), (2, 1)),
    ],
)
def test_contiguous_sets_are_the_squarest_blocks_that_tile(D, C, grid, block):
    assert grid_shape(D) == grid
    sets = contiguous_partition(D, C).reshape(grid)
    for label in range(D // C):
        rows, cols = np.where(sets == label)
        assert (np.ptp(rows) + 1, np.ptp(cols) + 1) == block
        assert len(rows) == C


def test_a_grid_of_one_row_gives_runs_in_order():
    # 14 = 2 x 7: sets of 7 are the rows
    assert contiguous_partition(14, 7).tolist() == [0] * 7 + [1] * 7


@pytest.mark.parametrize("D, C", [(64, 5), (8, 8), (8, 1)])
def test_sets_that_do_not_tile_are_refused(D, C):
    with pytest.raises(UserError, match=f"D={D} .*C={C}"):
        contiguous_partition(D, C)
    with pytest.raises(UserError, match=f"D={D} .*C={C}"):
        random_partition(D, C, np.random.default_rng(0))


def test_random_sets_have_one_size_and_differ():
    one, two = (random_partition(24, 3, np.random.default_rng(seed)) for seed in (0, 1))
    assert np.bincount(one).tolist() == [3] * 8
    assert (one != two).any()


def test_one_set_carries_the_label_and_the_rest_are_drawn_with_q():
    data, rng = spatial(D=40, q=0.3)
    x, y = data.signs(20_000, rng)
    sums = x @ np.eye(10)[data.partition]
    carries = sums == 4 * y[:, None]
    assert carries.any(axis=1).all()
    other = ~carries[:, data.partition]  # a chance all-y set is rare: (q/2)^4
    assert np.mean(x[other] == 1) == pytest.approx(0.15, abs=0.005)
    assert np.mean(x[other] == -1) == pytest.approx(0.15, abs=0.005)
    assert np.mean(y) == pytest.approx(0, abs=0.03)


def test_noise_is_orthogonal_to_the_feature_and_has_its_level():
    data, rng = spatial(sigma=0.5)
    X, _ = data.sample(4000, rng)
    x = X @ data.feature
    assert np.abs(x - np.round(x)).max() < 1e-5
    noise = X - x[..., None] * data.feature
    covariance = np.einsum("njd,nje->de", noise, noise) / (4000 * 16)
    wanted = 0.25 * (np.eye(6) - np.outer(data.feature, data.feature))
    assert np.abs(covariance - wanted).max() < 0.01


def test_projected_samples_have_the_law_of_patches():
    data, rng = spatial()
    v = rng.standard_normal(6).astype(np.float32)
    direct = data.sample(20_000, rng)[0] @ v
    exact = data.projected(20_000, rng).project(v)
    grid = np.linspace(0.05, 0.95, 19)
    assert np.abs(np.quantile(direct, grid) - np.quantile(exact, grid)).max() < 0.03


def test_dataset_is_endless_fresh_and_replayed_by_its_seed():
    data, _ = spatial()
    one, two = (list(data.dataset(8, seed=3).take(3).as_numpy_iterator()) for _ in range(2))
    assert one[0][0].shape == (8, 16, 6) and one[0][1].shape == (8,)
    assert (one[0][0] != one[1][0]).any()
    for (X, y), (X2, y2) in zip(one, two, strict=True):
        assert (X == X2).all() and (y == y2).all()


def test_target_counts_only_sets_above_nine_tenths():
    partition = np.repeat([0, 1, 2], 4)
    x = np.array(
        [[1, 1, 1, 1, 1, 1, 1, 0, -1, 0, 0, 0], [1, 1, 1, 0] * 3, [-1] * 4 + [1] * 4 + [0] * 4]
    )
    assert target(x, partition).tolist() == [4, 0, 0]


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(q=1.5), "q=1.5"),
        (dict(q=-0.1), "q=-0.1"),
        (dict(sigma=-1.0), "sigma=-1.0"),
        (dict(sigma=np.nan), "sigma=nan"),
    ],
)
def test_values_out_of_range_are_named(change, message):
    with pytest.raises(UserError, match=message):
        spatial(**change)


def test_a_feature_must_be_a_unit_vector():
    with pytest.raises(UserError, match="length 2"):
        Spatial(contiguous_partition(8, 2), np.array([2.0, 0.0]), 0.1, 0.1)


def test_gaussian_labels_follow_the_convolution():
    rng = np.random.default_rng(0)
    data = Gaussian(contiguous_partition(16, 4), unit_vector(5, rng), linear=100.0)
    X, y = data.sample(5000, rng)
    assert np.std(X) == pytest.approx(1, abs=0.01)
    agrees = np.mean(np.sign((X @ data.kernel).sum(axis=1)) == y)
    assert 0.97 < agrees < 1  # near-linear, not linear
    cubic = Gaussian(data.partition, data.kernel, linear=0.0)
    X, y = cubic.sample(5000, rng)
    assert np.mean(np.sign((X @ data.kernel).sum(axis=1)) == y) < 0.92

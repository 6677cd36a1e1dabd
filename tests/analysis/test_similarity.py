import numpy as np
import pytest

from posvit_tf.analysis import similarity

GRID = (4, 8)
N = 32


def local_table(rng):
    """Encodings that change smoothly over the grid: cosines of random waves."""
    places = np.indices(GRID).reshape(2, -1).T
    return np.cos(places @ rng.normal(0, 0.5, (2, 64)) + rng.uniform(0, 6, 64))


def test_position_similarity():
    table = np.array([[3.0, 0], [0, 2], [-5, 0], [1, 1], [0, 0]])
    half = np.sqrt(0.5)
    expected = [
        [1, 0, -1, half, 0],
        [0, 1, 0, half, 0],
        [-1, 0, 1, -half, 0],
        [half, half, -half, 1, 0],
    ]
    np.testing.assert_allclose(
        similarity.position_similarity(table), [*expected, [0] * 5], atol=1e-12
    )


def test_a_smooth_table_follows_distance_and_a_shuffled_or_random_one_does_not():
    rng = np.random.default_rng(0)
    local = local_table(rng)
    shuffled, noise = rng.permutation(local), rng.normal(size=(N, 64))
    matrices = np.stack([similarity.position_similarity(t) for t in (local, shuffled, noise)])
    r, chance = similarity.distance_correlation(np.concatenate([matrices, -matrices[:1]]), GRID)
    assert r[0] > 3 * chance[0] and r[3] == pytest.approx(-r[0], abs=1e-5)
    assert (abs(r[1:3]) < chance[1:3]).all() and (chance < 0.3).all()


def test_the_chance_level_is_passed_about_once_in_a_hundred():
    noise = np.random.default_rng(1).normal(size=(2000, N, N))
    r, chance = similarity.distance_correlation(noise, GRID)
    assert 0.002 < (abs(r) > chance).mean() < 0.02


def test_a_constant_map_follows_nothing():
    r, chance = similarity.distance_correlation(np.full((2, N, N), 1 / 33, "float32"), GRID)
    assert not r.any() and not chance.any()


def test_centred_scores_are_the_scores_up_to_a_number_a_row():
    scores = np.random.default_rng(0).normal(0, 3, (2, N, N))
    maps = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    centred = similarity.centred_scores(maps)
    np.testing.assert_allclose(np.ptp(scores - centred, axis=-1), 0, atol=1e-9)
    off_diagonal = centred[:, ~np.eye(N, dtype=bool)].reshape(2, N, N - 1)
    np.testing.assert_allclose(off_diagonal.mean(axis=-1), 0, atol=1e-9)
    assert np.isfinite(similarity.centred_scores(np.eye(N))).all()


def test_mean_by_offset_finds_the_patch_below():
    below = np.eye(N, k=GRID[1])  # each patch attends to the one a row down
    means = similarity.mean_by_offset(np.stack([below, np.full((N, N), 0.5)]), GRID)
    assert means.shape == (2, 5, 9)
    expected = np.zeros((5, 9))
    expected[2 + 1, 4] = 1
    np.testing.assert_array_equal(means[0], expected)
    np.testing.assert_array_equal(means[1], 0.5)


def test_total_variation_is_the_share_of_attention_that_moved():
    a = np.array([[[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]])
    b = np.array([[[0.0, 1, 0], [0.5, 0.25, 0.25], [0, 0, 1]]])
    np.testing.assert_allclose(similarity.total_variation(a, b), [(1 + 0.25 + 0) / 3])
    np.testing.assert_array_equal(similarity.total_variation(a, a), [0])

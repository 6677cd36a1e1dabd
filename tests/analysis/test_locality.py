import numpy as np
import pytest

from posvit_tf.analysis import locality

GRID = (3, 5)
N = 15
EYE, UNIFORM = np.eye(N), np.full((N, N), 1 / N)


def noise(*shape):
    maps = np.random.default_rng(0).exponential(size=(*shape, N, N))
    return maps / maps.sum(axis=-1, keepdims=True)


def test_distances_count_patches():
    distance = locality.grid_distance(GRID)
    assert distance[0, 5 + 1] == pytest.approx(np.sqrt(2))  # one down, one right
    right = np.eye(N, k=1)
    right[:, 0] = right.sum(axis=1) == 0  # the last patch looks at the first
    expected = (10 * 1 + 2 * np.sqrt(1 + 16) + 2 * 1 + np.sqrt(4 + 16)) / N
    assert locality.mean_distance(right, GRID) == pytest.approx(expected)


def test_a_patch_that_sees_itself_scores_1_and_a_uniform_map_0():
    scores = locality.locality_score(np.stack([EYE, UNIFORM, EYE[::-1]]), GRID)
    np.testing.assert_allclose(scores[:2], [1, 0], atol=1e-12)
    assert scores[2] < -0.2  # each patch sees the opposite one


def test_rows_are_scaled_and_an_empty_one_is_uniform():
    maps = noise(2)
    np.testing.assert_allclose(
        locality.mean_distance(maps / 7, GRID), locality.mean_distance(maps, GRID)
    )
    np.testing.assert_allclose(locality.locality_score(0 * EYE, GRID), 0, atol=1e-12)


def test_shuffling_the_patches_looked_at_scores_0_on_average():
    rng = np.random.default_rng(1)
    steep = noise() ** 4
    scores = locality.locality_score(
        np.stack([steep[:, rng.permutation(N)] for _ in range(4000)]), GRID
    )
    assert abs(scores.mean()) < 4 * scores.std() / np.sqrt(4000)


def test_chance_keeps_self_attention_and_forgets_the_rest():
    maps = np.stack([0.3 * EYE + 0.7 * noise(), noise()])  # (2,N,N)
    scores = locality.chance(maps, GRID, np.random.default_rng(2), draws=4000)  # (4000,2)
    expected = (np.trace(maps, axis1=-2, axis2=-1) - 1) / (N - 1)
    assert (abs(scores.mean(axis=0) - expected) < 4 * scores.std(axis=0) / np.sqrt(4000)).all()
    # One draw is the score of the map with its patches renamed.
    order = np.random.default_rng(3).permutation(N)
    renamed = maps[:, np.argsort(order)][:, :, np.argsort(order)]
    np.testing.assert_allclose(
        locality.chance(maps, GRID, np.random.default_rng(3), draws=1)[0],
        locality.locality_score(renamed, GRID),
    )

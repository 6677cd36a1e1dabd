import numpy as np

from posvit_tf.analysis.rollout import rollout


def test_the_last_layer_is_on_the_left_and_heads_are_averaged():
    to_second = np.array([[0.0, 1], [0, 1]])
    swap = np.array([[0.0, 1], [1, 0]])
    stay = np.eye(2)
    # layer 1: every token takes half of the second; layer 2: one head swaps, one stays
    found = rollout(np.array([[to_second, to_second], [swap, stay]]))
    first, second = np.array([[0.5, 0.5], [0, 1]]), np.array([[0.75, 0.25], [0.25, 0.75]])
    np.testing.assert_allclose(found, second @ first)
    assert not np.allclose(found, first @ second)


def test_rows_sum_to_1_for_each_image():
    maps = np.random.default_rng(0).exponential(size=(5, 3, 2, 7, 7))  # (L,B,H,N,N)
    maps /= maps.sum(axis=-1, keepdims=True)
    found = rollout(maps)
    assert found.shape == (3, 7, 7)
    np.testing.assert_allclose(found.sum(axis=-1), 1)
    np.testing.assert_allclose(found[1], rollout(maps[:, 1]))


def test_a_token_keeps_half_a_layer_under_uniform_attention():
    found = rollout(np.full((3, 4, 5, 5), 1 / 5))
    np.testing.assert_allclose(found, np.eye(5) / 8 + (1 - 1 / 8) / 5)

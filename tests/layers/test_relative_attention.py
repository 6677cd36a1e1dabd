"""Attention by offset: its map, its FFT form beside its dense one, and its local start."""

import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.errors import UserError
from posvit_tf.layers import RelativeAttention, local_maps

B, H = 2, 2


def run(layer, tokens, cotangent):
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        output = layer(tokens)
        total = tf.reduce_sum(output * cotangent)
    return output, *tape.gradient(total, [tokens, *(w.value for w in layer.trainable_weights)])


@pytest.mark.parametrize("key_weights", ["none", "channel"])
@pytest.mark.parametrize("class_token", [0, 1])
@pytest.mark.parametrize("grid", [(3, 5), (1, 7), (4, 1), (7, 7)])
def test_by_fft_as_by_its_map(grid, class_token, key_weights, rng, randomise):
    tokens = tf.constant(rng.normal(size=(B, grid[0] * grid[1] + class_token, 6)), "float32")
    cotangent = rng.normal(size=tokens.shape)
    fast, dense = (
        RelativeAttention(H, grid, fft=fft, key_weights=key_weights) for fft in (True, False)
    )
    for layer in (fast, dense):
        layer.build(tokens.shape)
    randomise(fast)
    dense.set_weights(fast.get_weights())
    for one, other in zip(run(fast, tokens, cotangent), run(dense, tokens, cotangent), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(*(x(tokens, return_map=True)[1] for x in (fast, dense)))


def test_the_map_depends_on_the_offset_alone_and_rows_sum_to_one(rng, randomise):
    layer = RelativeAttention(H, (3, 4))
    tokens = rng.normal(size=(B, 13, 6)).astype("float32")
    layer.build(tokens.shape)
    randomise(layer)
    scores = np.log(layer(tokens, return_map=True)[1])  # (H,13,13)
    np.testing.assert_allclose(np.exp(scores).sum(-1), 1, rtol=1e-6)
    place = np.indices((3, 4)).reshape(2, -1).T
    s, (looks, seen) = layer.offsets.numpy(), layer.token_scores.numpy().T
    for h in range(H):
        for i in range(12):
            offsets = place[i] - place  # (12,2)
            expected = [seen[h], *(s[h, r + 2, c + 3] for r, c in offsets)]
            found = scores[h, i + 1]
            np.testing.assert_allclose(found - found[0], np.array(expected) - seen[h], atol=1e-5)
        np.testing.assert_allclose(scores[h, 0, 1:] - scores[h, 0, 0], looks[h], atol=1e-5)


@pytest.mark.parametrize("class_token", [False, True])
def test_it_starts_as_local_as_the_others(class_token):
    grid, head = (4, 6), 16
    shifts = local_maps.head_shifts(3, 1)
    layer = RelativeAttention(3, grid)
    layer.build((1, 24 + class_token, 3 * head))
    layer.start_local(grid, shifts, class_token)
    found = layer.scores()
    expected = local_maps.scores(grid, head, shifts, class_token)
    np.testing.assert_allclose(tf.nn.softmax(found), tf.nn.softmax(expected), atol=1e-6)


def test_tokens_of_another_grid_are_refused():
    with pytest.raises(UserError, match="9 tokens are not those of a grid of 2x3"):
        RelativeAttention(H, (2, 3)).build((1, 9, 8))

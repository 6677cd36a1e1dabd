import keras
import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.errors import UserError
from posvit_tf.layers import OffDiagonalAttention, PositionalAttention, SelfAttention

B, N, E, H = 3, 5, 8, 2


@pytest.fixture
def tokens(rng):
    return tf.constant(rng.normal(size=(B, N, E)), "float32")


@pytest.fixture
def positions(rng):
    return tf.constant(rng.normal(size=(N, E)), "float32")


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def einsum_form(layer, tokens, positions):
    def heads(dense, x):
        x = x @ dense.kernel + dense.bias
        return tf.reshape(x, (*x.shape[:-1], H, E // H))

    q, k, v = heads(layer.query, positions), heads(layer.key, positions), heads(layer.value, tokens)
    attention_map = tf.nn.softmax(tf.einsum("nhd,mhd->hnm", q, k) / (E // H) ** 0.5)
    mixed = tf.einsum("hnm,bmhd->bnhd", attention_map, v)
    return tf.reshape(mixed, (B, N, E)) @ layer.out.kernel + layer.out.bias, attention_map


def test_positional_attention_equals_its_einsum_form(tokens, positions, rng, randomise):
    layer = PositionalAttention(H)
    layer.build(tokens.shape, positions.shape)
    randomise(layer)
    cotangent = rng.normal(size=(B, N, E))

    def run(form):
        with tf.GradientTape() as tape:
            tape.watch([tokens, positions])
            output, attention_map = form()
            total = tf.reduce_sum(output * cotangent)
        sources = [tokens, positions, *(w.value for w in layer.trainable_weights)]
        return output, attention_map, *tape.gradient(total, sources)

    fast = run(lambda: layer(tokens, positions, return_map=True))
    plain = run(lambda: einsum_form(layer, tokens, positions))
    assert len(fast) == 2 + 2 + 8
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_self_attention_equals_keras_multi_head_attention(tokens, randomise):
    theirs = keras.layers.MultiHeadAttention(H, key_dim=E // H)
    theirs.build(tokens.shape, tokens.shape)
    ours = SelfAttention(H)
    ours.build(tokens.shape)
    randomise(ours)
    theirs.set_weights(
        [w.reshape(t.shape) for w, t in zip(ours.get_weights(), theirs.weights, strict=True)]
    )
    expected = theirs(tokens, tokens, return_attention_scores=True)
    for mine, other in zip(ours(tokens, return_map=True), expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_off_diagonal_map_is_the_softmax_of_a_matrix_whose_diagonal_nothing_moves(
    tokens, randomise
):
    layer = OffDiagonalAttention(H, diagonal=0.7)

    def check_map():
        matrix = layer.off_diagonal.numpy()
        matrix[:, range(N), range(N)] = 0.7
        _, attention_map = layer(tokens, return_map=True)
        np.testing.assert_allclose(attention_map, softmax(matrix), rtol=1e-5)

    layer.build(tokens.shape)
    randomise(layer)
    check_map()

    before = layer.off_diagonal.numpy()
    optimizer = keras.optimizers.AdamW(learning_rate=0.1, weight_decay=5.0)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tokens) ** 2)
        gradients = tape.gradient(loss, [w.value for w in layer.trainable_weights])
        optimizer.apply(gradients, layer.trainable_weights)
    assert np.mean(np.abs(layer.off_diagonal - before)[:, ~np.eye(N, dtype=bool)]) > 0.1
    check_map()

    randomise(layer, std=3.0)
    check_map()
    layer.off_diagonal.assign(tf.linalg.set_diag(layer.off_diagonal, np.full((H, N), np.inf)))
    check_map()


def test_off_diagonal_mixes_the_tokens_values_by_its_map(tokens, randomise):
    layer = OffDiagonalAttention(H)
    layer.build(tokens.shape)
    randomise(layer)
    output, attention_map = layer(tokens, return_map=True)
    values = tf.reshape(layer.value(tokens), (B, N, H, E // H))
    mixed = tf.einsum("hnm,bmhd->bnhd", attention_map, values)
    expected = layer.out(tf.reshape(mixed, (B, N, E)))
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [7, 17, 64])
def test_zero_and_frozen_map_is_uniform(count):
    layer = OffDiagonalAttention(H, diagonal=0.0, std=0.0, train_map=False)
    _, attention_map = layer(np.ones((1, count, E), "float32"), return_map=True)
    # Exact but for the last bit, which TensorFlow's softmax may round.
    np.testing.assert_allclose(attention_map, np.full((H, count, count), 1 / count), rtol=2**-22)


@pytest.mark.parametrize("cls", [SelfAttention, PositionalAttention])
def test_float16_scores_do_not_overflow(cls):
    x = np.array([[300, 0, 0, 0], [0, 0, 0, 0]], "float32")  # (N,E)
    layer = cls(1, dtype="mixed_float16")
    layer.build((1, 2, 4), (2, 4))
    layer.set_weights([np.eye(4), np.zeros(4)] * 4)  # q = k = v = x
    output, attention_map = layer(x[None], x, return_map=True)
    assert attention_map.dtype == tf.float32
    np.testing.assert_array_equal(np.reshape(attention_map, (2, 2)), [[1, 0], [0.5, 0.5]])
    np.testing.assert_array_equal(output[0, :, 0], [300, 150])


def test_a_head_is_the_width_over_the_heads():
    layer = SelfAttention(12)
    layer.build((None, 4, 768))
    assert layer.count_params() == 2_362_368


@pytest.mark.parametrize("cls", [SelfAttention, PositionalAttention, OffDiagonalAttention])
@pytest.mark.parametrize("heads", [3, 0])
def test_heads_that_do_not_divide_the_width_are_refused(cls, heads):
    with pytest.raises(UserError, match=rf"\b{heads} attention heads .* width of 8\b"):
        cls(heads)(np.zeros((1, N, 8)), np.zeros((N, 8)))


@pytest.mark.parametrize("kind", [SelfAttention, PositionalAttention, OffDiagonalAttention])
def test_another_map_takes_the_place_of_its_own(kind, tokens, positions, randomise):
    layer = kind(H)
    layer.build(tokens.shape, positions.shape)
    randomise(layer)
    eye = np.tile(np.eye(N, dtype="float32"), (H, 1, 1))
    alone, used = layer(tokens, attention_map=eye, return_map=True)
    np.testing.assert_allclose(alone, layer.out(layer.value(tokens)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(used, eye)

import keras
import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.layers import (
    DropPath,
    EncoderBlock,
    OffDiagonalAttention,
    PositionalAttention,
    SelfAttention,
)
from posvit_tf.layers.encoder import gelu


def test_gelu_is_the_exact_one():
    np.testing.assert_allclose(gelu(tf.constant([1.0, -3.0])), [0.841345, -0.0040497], atol=1e-6)
    half = tf.cast(gelu(tf.constant([-3.0], tf.bfloat16)), tf.float32)
    np.testing.assert_allclose(half, [-0.0040497], rtol=0.01)  # bfloat16 has 8 bits


def test_gelu_gradient_equals_the_tape_of_its_formula():
    x = tf.linspace(-5.0, 5.0, 41)

    def gradient(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=tf.linspace(1.0, 2.0, 41))

    expected = gradient(lambda x: 0.5 * x * (1.0 + tf.math.erf(x / 2.0**0.5)))
    np.testing.assert_allclose(gradient(gelu), expected, atol=1e-6)


def test_drop_path_drops_whole_examples_and_keeps_the_mean():
    x = np.ones((2000, 2, 3), "float32")
    layer = DropPath(0.25, seed=0)
    dropped = np.reshape(layer(x, training=True), (2000, 6))
    assert np.all(dropped == dropped[:, :1])
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
    assert dropped.mean() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(layer(x), x)


def block_and_inputs(rng, randomise, attention=PositionalAttention, **arguments):
    tokens, positions = (rng.normal(size=s).astype("float32") for s in ((3, 5, 8), (5, 8)))
    block = EncoderBlock(attention(2), 6, **arguments)
    block.build(tokens.shape, positions.shape)
    return randomise(block), tokens, positions


def test_block_normalises_before_attention_and_mlp(rng, randomise):
    block, tokens, positions = block_and_inputs(rng, randomise)
    output, attention_map = block(tokens, positions, return_map=True)
    mixed, expected_map = block.attention(block.norm_attention(tokens), positions, return_map=True)
    x = tokens + mixed
    np.testing.assert_allclose(output, x + block.mlp(block.norm_mlp(x)), atol=1e-5)
    np.testing.assert_array_equal(attention_map, expected_map)


@pytest.mark.parametrize("argument", ["dropout", "drop_path"])
def test_block_without_its_branches_is_the_identity_in_training_alone(argument, rng, randomise):
    keras.utils.set_random_seed(0)
    block, tokens, positions = block_and_inputs(rng, randomise, **{argument: 0.99999})
    np.testing.assert_array_equal(block(tokens, positions, training=True), tokens)
    assert np.all(np.any(block(tokens, positions) != tokens, axis=(1, 2)))


@pytest.mark.parametrize("attention", [SelfAttention, PositionalAttention, OffDiagonalAttention])
def test_norms_folded_in_training_equal_those_written_out(attention, rng, randomise):
    block, tokens, positions = block_and_inputs(rng, randomise, attention)
    tokens = tf.constant(tokens)
    cotangent = rng.normal(size=tokens.shape).astype("float32")

    def run(training):
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            output = block(tokens, positions, training=training)
        weights = [v.value for v in block.trainable_variables]
        found = tape.gradient(output, [tokens, *weights], output_gradients=cotangent)
        return output, *found

    for folded, plain in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(folded, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("attention", [SelfAttention, PositionalAttention, OffDiagonalAttention])
def test_first_rows_equal_those_of_all_tokens(attention, rows, training, rng, randomise):
    block, tokens, positions = block_and_inputs(rng, randomise, attention)
    tokens = tf.constant(tokens)
    cotangent = rng.normal(size=(3, rows, 8)).astype("float32")

    def run(**only):
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            output, attention_map = block(
                tokens, positions, return_map=True, training=training, **only
            )
            output, attention_map = output[:, :rows], attention_map[..., :rows, :]
        weights = [v.value for v in block.trainable_variables]
        found = tape.gradient(output, [tokens, *weights], output_gradients=cotangent)
        return output, attention_map, *found

    assert block(tokens, positions, rows=rows).shape == (3, rows, 8)
    for few, whole in zip(run(rows=rows), run(), strict=True):
        np.testing.assert_allclose(few, whole, rtol=1e-5, atol=1e-5)

"""Values weighted by keys of their own tokens, and the gate, beside the plain formulas."""

import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.errors import UserError
from posvit_tf.layers import (
    OffDiagonalAttention,
    PositionalAttention,
    RelativeAttention,
    SelfAttention,
)
from posvit_tf.layers.mixing import mix_weighted

B, N, E, H = 3, 6, 8, 2
KINDS = {
    "positional": lambda **options: PositionalAttention(H, **options),
    "free": lambda **options: OffDiagonalAttention(H, **options),
    "relative": lambda **options: RelativeAttention(H, (2, 3), **options),
    "by FFT": lambda **options: RelativeAttention(H, (2, 3), fft=True, **options),
}


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(B, N, E)).astype("float32"), rng.normal(size=(N, E)).astype("float32")


def plain(A, values, keys):
    """sum_j A_ij e^(k_jc) v_jc / sum_j A_ij e^(k_jc), channel by channel."""
    per = E // H
    out = []
    for c in range(E):
        head = c // per
        k = keys[..., c if keys.shape[-1] == E else head]  # (B,N)
        weights = A[head] * tf.exp(k)[:, None]  # (B,N,N)
        out.append(tf.reduce_sum(weights * values[:, None, :, c], -1) / tf.reduce_sum(weights, -1))
    return tf.stack(out, axis=-1)  # (B,N,E)


@pytest.mark.parametrize("numbers", [H, E])
def test_fast_and_plain_form_and_their_gradients_agree_in_float64(numbers, rng):
    A = tf.nn.softmax(tf.constant(rng.normal(size=(H, N, N))))
    values, keys = (tf.Variable(rng.normal(size=(B, N, n))) for n in (E, numbers))
    cotangent = rng.normal(size=(B, N, E))

    def run(form):
        with tf.GradientTape() as tape:
            tape.watch(A)
            out = form()
            total = tf.reduce_sum(out * cotangent)
        return out, *tape.gradient(total, [A, values, keys])

    fast = run(lambda: mix_weighted(A, values, keys, H))
    for one, other in zip(fast, run(lambda: plain(A, values, keys)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_weights", ["head", "channel"])
def test_equal_keys_give_the_maps_own_output(kind, key_weights, inputs, randomise):
    weighted, own = KINDS[kind](key_weights=key_weights), KINDS[kind]()
    for layer in (weighted, own):
        layer.build((B, N, E), (N, E))
    randomise(weighted)
    weighted.token_key.set_weights(
        [np.zeros_like(w) + 0.7 for w in weighted.token_key.get_weights()]
    )
    weighted.token_key.kernel.assign(tf.zeros_like(weighted.token_key.kernel))
    named = {w.path.partition("/")[2]: w for w in weighted.weights}
    for weight in own.weights:
        weight.assign(named[weight.path.partition("/")[2]])
    np.testing.assert_allclose(weighted(*inputs), own(*inputs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_huge_keys_overflow_in_no_precision(kind, dtype, inputs, randomise):
    layer = KINDS[kind](key_weights="channel", dtype=dtype)
    layer.build((B, N, E), (N, E))
    randomise(layer)
    layer.token_key.kernel.assign(200 * layer.token_key.kernel)
    with tf.GradientTape() as tape:
        output = layer(*inputs)
        total = tf.reduce_sum(tf.cast(output, "float32"))
    for found in (output, *tape.gradient(total, [w.value for w in layer.trainable_weights])):
        assert np.isfinite(tf.cast(found, "float32")).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_weights", ["none", "head", "channel"])
def test_a_gate_and_a_few_rows(kind, key_weights, inputs, randomise):
    layer = KINDS[kind](key_weights=key_weights, gate=True)
    layer.build((B, N, E), (N, E))
    randomise(layer)
    whole = layer(*inputs)
    np.testing.assert_allclose(layer(*inputs, rows=2), whole[:, :2], rtol=1e-5, atol=1e-6)
    layer.out.set_weights([np.eye(E), np.zeros(E)])
    gated = layer(*inputs)
    layer.gate = False
    gate = tf.sigmoid(layer.token_gate(inputs[0]))
    np.testing.assert_allclose(gated, layer(*inputs) * gate, rtol=1e-5, atol=1e-6)


def test_maps_made_of_the_tokens_take_no_key_weights():
    with pytest.raises(UserError, match="key_weights='head' is not for SelfAttention"):
        SelfAttention(H, key_weights="head")

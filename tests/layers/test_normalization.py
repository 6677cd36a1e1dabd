import keras
import numpy as np
import tensorflow as tf

from posvit_tf.layers import LayerNorm


def test_epsilon_is_small_enough_for_small_tokens():
    output = LayerNorm()(np.array([[0.01, -0.01]], "float32"))
    np.testing.assert_allclose(output, [[0.995, -0.995]], atol=1e-4)


def test_values_and_gradients_equal_keras(rng, randomise):
    x = tf.constant(rng.normal(2.0, 3.0, size=(3, 5, 8)), "float32")
    cotangent = rng.normal(size=x.shape)
    ours, theirs = LayerNorm(), keras.layers.LayerNormalization(epsilon=1e-6)
    ours.build(x.shape)
    theirs.build(x.shape)
    theirs.set_weights(randomise(ours).get_weights())

    def run(layer):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x)
            total = tf.reduce_sum(output * cotangent)
        return output, *tape.gradient(total, [x, layer.gamma.value, layer.beta.value])

    for mine, other in zip(run(ours), run(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)

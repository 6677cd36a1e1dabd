"""LayerNorm with its gradient written out: Keras's own takes a third of a small model's training step."""

import keras
from keras import ops


def normalise(x, gamma, beta, epsilon: float):
    """y = n gamma + beta, n = (x - mean x) / sqrt(var x + epsilon), over the last axis, in float32.

    The gradient is dx = (h - mean h - n mean(h n)) / sqrt(var x + epsilon), h = gamma dy, in two
    passes less over memory than what a tape makes of the formula.

    Args:
        x: (..., E). gamma, beta: (E,), all float32.
    """

    @ops.custom_gradient
    def with_gradient(x, gamma, beta):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + epsilon)
        n = centred * scale

        def gradient(dy):
            h = dy * gamma
            mean_h = ops.mean(h, axis=-1, keepdims=True)
            dx = scale * (h - mean_h - n * ops.mean(h * n, axis=-1, keepdims=True))
            rows = tuple(range(len(x.shape) - 1))
            return dx, ops.sum(dy * n, axis=rows), ops.sum(dy, axis=rows)

        return n * gamma + beta, gradient

    return with_gradient(x, gamma, beta)


@keras.saving.register_keras_serializable(package="posvit_tf")
class LayerNorm(keras.layers.LayerNormalization):
    """`normalise` over the last axis with trained gamma and beta, epsilon 1e-6.

    Call arguments:
        inputs: (..., E).

    Returns:
        The same shape.
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs):
        x, gamma, beta = (ops.cast(v, "float32") for v in (inputs, self.gamma, self.beta))
        return ops.cast(normalise(x, gamma, beta, self.epsilon), self.compute_dtype)

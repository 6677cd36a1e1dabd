"""Adam as one kernel a weight against Keras's own formula."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.training.fused import use_adam_kernel


@pytest.mark.parametrize(
    "make", [keras.optimizers.Adam, lambda rate: keras.optimizers.AdamW(rate, weight_decay=0.1)]
)
def test_equals_keras(make):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(5, 7)).astype("float32")
    gradients = [rng.normal(size=start.shape).astype("float32") for _ in range(20)]
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 20)

    def trained(fused: bool) -> list[np.ndarray]:
        weight, optimizer = keras.Variable(start), make(rate)
        optimizer.build([weight])
        if fused:
            use_adam_kernel(optimizer)
        update = tf.function(lambda g: optimizer.apply([g], [weight]), autograph=False)
        for gradient in gradients:
            update(tf.constant(gradient))
        return [np.array(v) for v in (weight, *optimizer.variables)]

    plain, fused = trained(False), trained(True)
    assert not np.allclose(plain[0], start, atol=1e-2)
    for a, b in zip(plain, fused, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)

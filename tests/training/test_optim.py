import keras
import numpy as np
import pytest

from posvit_tf.layers import ClassToken, EncoderBlock, PositionalAttention, PositionTable
from posvit_tf.training import optim


def test_schedule_warms_up_and_falls_by_update(tiny):
    c = tiny({"optimizer.learning_rate": 1.0, "optimizer.final_learning_rate": 0.0}).optimizer
    rate = optim.schedule(c, updates=100, warmup=10)
    np.testing.assert_allclose(
        [float(rate(u)) for u in (0, 5, 10, 55, 100)], [0, 0.5, 1, 0.5, 0], atol=1e-6
    )
    without = optim.schedule(c, updates=100, warmup=0)
    np.testing.assert_allclose([float(without(u)) for u in (0, 50, 100)], [1, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize(("updates", "warmup"), [(100, 10), (1000, 50)])
def test_warmup_lasts_at_most_a_tenth_of_the_run(tiny, updates, warmup):
    c = tiny({"optimizer.warmup_epochs": 5.0}).optimizer
    assert optim.warmup_updates(c, updates, per_epoch=10) == warmup


def test_only_matrices_decay():
    images = keras.Input((4, 8))
    tokens = ClassToken()(images)
    p = PositionTable((2, 2), class_token=True)(tokens)
    tokens = EncoderBlock(PositionalAttention(2), 8)(tokens, p)
    model = keras.Model(images, keras.layers.Dense(3)(tokens))
    kernels = optim.decayed(model)
    assert {v.name for v in kernels} == {"kernel"}
    assert len(kernels) == 4 + 2 + 1  # the attention's, the MLP's, the head's

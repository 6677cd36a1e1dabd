import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def randomise(rng):
    """Gives every weight of a layer normal values: biases start as 0 and scales as 1, which hide."""

    def write(layer, std=0.5):
        layer.set_weights([rng.normal(scale=std, size=w.shape) for w in layer.get_weights()])
        return layer

    return write

import math

import keras
import numpy as np
import pytest

from posvit_tf import config
from posvit_tf.errors import UserError
from posvit_tf.models.build import MODELS, parameters
from posvit_tf.models.cnn import cnn, resnet18, vgg19

CIFAR, MEAN, STD = (32, 32, 3), (125.0, 123.0, 114.0), (63.0, 62.0, 67.0)
# Of the usual PyTorch forms for CIFAR, batch norm's scales and shifts counted, its statistics not.
PARAMETERS = {"resnet18": 11_173_962, "vgg19": 20_040_522}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_count_at_full_width(name):
    fields = config.load(f"cifar10:model={name}").model
    model = MODELS[name](CIFAR, 10, MEAN, STD, **fields)
    assert parameters(model) == PARAMETERS[name]
    assert model.name == name


def test_a_resnet_keeps_the_size_of_the_image_until_its_second_stage():
    model = cnn(resnet18, CIFAR, 10, MEAN, STD, width=4)
    sizes = [
        layer.output.shape[1:] for layer in model.layers if isinstance(layer, keras.layers.Add)
    ]
    assert sizes == [
        (side, side, channels)
        for side, channels in ((32, 4), (16, 8), (8, 16), (4, 32))
        for _ in range(2)
    ]


def test_no_1x1_convolution_has_a_stride():
    # Its gradient is wrong at few channels with oneDNN: oneDNN issue 6035.
    model = cnn(resnet18, CIFAR, 10, MEAN, STD, width=4)
    strides = [x.strides for x in model.layers if getattr(x, "kernel_size", None) == (1, 1)]
    assert strides == [(1, 1)] * 3


@pytest.mark.parametrize("build", [resnet18, vgg19])
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_uint8_in_and_float32_logits_out(build, precision):
    model = cnn(build, CIFAR, 7, MEAN, STD, width=2, dtype=precision)
    pixels = np.random.default_rng(0).integers(0, 256, (2, *CIFAR), dtype=np.uint8)
    logits = model(pixels)
    assert logits.shape == (2, 7) and keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert np.isfinite(logits).all()
    convolution = next(x for x in model.layers if isinstance(x, keras.layers.Conv2D))
    assert convolution.compute_dtype == keras.DTypePolicy(precision).compute_dtype


def test_batch_norm_follows_the_usual_recipe():
    model = cnn(resnet18, CIFAR, 7, MEAN, STD, width=2)
    norms = [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]
    assert {(x.momentum, x.epsilon) for x in norms} == {(0.9, 1e-5)}
    kernels = [v for v in model.trainable_variables if v.name == "kernel"]
    # He et al. 2015: the deviation of a kernel's start is sqrt(2 / fan-in)
    last = kernels[-2]
    assert np.std(last) == pytest.approx(math.sqrt(2 / np.prod(last.shape[:3])), rel=0.1)


def test_an_image_too_small_for_five_poolings_is_refused():
    with pytest.raises(UserError, match="vgg19.*8x8.*32x32"):
        cnn(vgg19, (8, 8, 1), 10, (0.0,), (1.0,), width=2)
    assert cnn(resnet18, (8, 8, 1), 10, (0.0,), (1.0,), width=2).output_shape == (None, 10)

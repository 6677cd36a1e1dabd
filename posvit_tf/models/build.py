"""The model that a config names."""

import math
from functools import partial

import keras
from ml_collections import ConfigDict

from posvit_tf.models.cnn import cnn, resnet18, vgg19
from posvit_tf.models.vit import vit

MODELS = {"vit": vit, "resnet18": partial(cnn, resnet18), "vgg19": partial(cnn, vgg19)}


def build(config: ConfigDict, facts: dict) -> keras.Model:
    """The model of `config.model` for images and classes as in `facts`, a `Source`'s."""
    return MODELS[config.model.name](
        tuple(facts["image_shape"]),
        len(facts["class_names"]),
        facts["mean"],
        facts["std"],
        dtype=config.precision,
        **config.model,
    )


def parameters(model: keras.Model) -> int:
    """How many numbers are trained: neither a batch norm's statistics nor frozen maps are."""
    return sum(math.prod(v.shape) for v in model.trainable_variables)

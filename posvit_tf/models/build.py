"""The model that a config names."""

import keras
from ml_collections import ConfigDict

from posvit_tf.models.vit import vit


def build(config: ConfigDict, facts: dict) -> keras.Model:
    """The ViT of `config.model` for images and classes as in `facts`, a `Source`'s."""
    return vit(
        tuple(facts["image_shape"]),
        len(facts["class_names"]),
        facts["mean"],
        facts["std"],
        dtype=config.precision,
        **config.model,
    )

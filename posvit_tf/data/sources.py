"""Where a data set comes from: a module a kind of source, imported when it is asked for."""

import importlib

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data import pictures
from posvit_tf.data.fields import SOURCES
from posvit_tf.data.splits import Source, Split, source_of
from posvit_tf.errors import unknown


def load(data: ConfigDict) -> Source:
    """Reads a data set and cuts it as the split strings say.

    Args:
        data: `config.data`.

    Raises:
        UserError: if the data set is unknown or cannot be had, a split does not exist, is empty or
            overlaps another, or a label lies outside the classes.
    """
    if data.name not in SOURCES:
        raise unknown("data.name", data.name, SOURCES)
    source = importlib.import_module(SOURCES[data.name][0]).load(data)
    return resized(source, data.image_size) if data.get("image_size") else source


def resized(source: Source, size: str) -> Source:
    """The same with all images fitted to a size as `pictures.size` reads it; files were, when found."""
    if not isinstance(source.train.images, np.ndarray) or source.train.files is not None:
        return source
    height, width = pictures.size(size)

    def of(split: Split) -> Split:
        chunks = [split.images[i : i + 1000] for i in range(0, len(split.images), 1000)]
        chunks = [pictures.fit(chunk, height, width).numpy() for chunk in chunks]
        return Split(np.concatenate(chunks), split.labels)

    splits = {"train": source.train, "eval": source.eval, "test": source.test}
    splits = {role: of(split) for role, split in splits.items() if split}
    return source_of(source.name, splits, source.class_names)

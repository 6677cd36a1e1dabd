"""scikit-learn's handwritten digits: real data without a download. Imports no TensorFlow."""

import numpy as np
from ml_collections import ConfigDict
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from posvit_tf.data.splits import Source, cut, infos


def load(data: ConfigDict) -> Source:
    """The 1,797 digits, 8x8 pixels, 0..16 scaled to 0..255; the same 360 are the test in every run."""
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[..., None]  # (n,8,8,1)
    labels = digits.target.astype(np.int32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=360, stratify=labels, random_state=0
    )
    wholes = {"train": (train_images, train_labels), "test": (test_images, test_labels)}
    class_names = tuple(map(str, digits.target_names))
    return cut(data, infos(wholes), class_names, wholes.__getitem__)

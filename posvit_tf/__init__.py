"""Vision Transformers whose attention depends only on positions, for TensorFlow and Keras 3."""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posvit_tf.models.vit import vit
    from posvit_tf.trained import load

__all__ = ["load", "vit"]
__version__ = "0.2.0"

# TensorFlow reads it at import and leaves oneDNN off on CPUs without AVX-512 VNNI, where it helps as well.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

PLACES = {"load": "posvit_tf.trained", "vit": "posvit_tf.models.vit"}


def __getattr__(name: str) -> object:
    """`load` and `vit`: their imports take seconds, and the command line answers without."""
    if name in PLACES:
        return getattr(importlib.import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

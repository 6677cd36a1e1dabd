"""Vision Transformers whose attention depends only on positions, for TensorFlow and Keras 3."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posvit_tf.tasks.classify import Loaded

# TensorFlow reads it at import and leaves oneDNN off on CPUs without AVX-512 VNNI, where it helps as well.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def load(workdir: str | Path) -> Loaded:
    """The model of a finished run, its class names and its config: `posvit_tf.tasks.classify.load`."""
    # Not above: `posvit_tf.layers` also runs where TensorFlow is not installed.
    from posvit_tf.tasks import classify

    return classify.load(Path(workdir).expanduser())

"""Vision Transformers whose attention depends only on positions, for TensorFlow and Keras 3."""

from pathlib import Path


def load(workdir: str | Path):
    """The model of a finished run, its class names and its config: see `posvit_tf.tasks.classify.load`."""
    # Here and not above: `posvit_tf.layers` runs on Keras backends where TensorFlow is not installed.
    from posvit_tf.tasks import classify

    return classify.load(Path(workdir))

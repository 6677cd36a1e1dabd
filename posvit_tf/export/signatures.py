"""What an exported SavedModel answers to."""

from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from posvit_tf.data import pictures

ENCODED = "encoded"
CLASS_NAMES = "class_names"


class Signatures(tf.Module):
    """Three signatures around a classifier; a SavedModel of them needs no code of this package.

        serving_default  images uint8 (N,H,W,C) -> logits (N,K), probabilities (N,K), label (N,) int32
        encoded          encoded (N,), the content of JPEG or PNG files -> the same
        class_names      nothing -> class_names (K,)

    Args:
        model: images uint8 (N, H, W, C) -> logits (N, K).
        class_names: K.
    """

    def __init__(self, model: keras.Model, class_names: Sequence[str]):
        super().__init__()
        shape = model.input_shape[1:]

        @tf.function(
            input_signature=[tf.TensorSpec((None, *shape), tf.uint8, name="images")],
            autograph=False,
        )
        def from_images(images):
            # A loaded signature takes any shape, and some would run through to a wrong answer.
            images = tf.ensure_shape(images, (None, *shape))
            logits = model(images, training=False)  # (N,K)
            return {
                "logits": logits,
                "probabilities": tf.nn.softmax(logits),  # (N,K)
                "label": tf.argmax(logits, axis=-1, output_type=tf.int32),  # (N,)
            }

        def from_content(content):
            return pictures.fit_channels(pictures.decode_in_graph(content), shape)  # (H,W,C)

        @tf.function(
            input_signature=[tf.TensorSpec((None,), tf.string, name=ENCODED)], autograph=False
        )
        def from_encoded(encoded):
            spec = tf.TensorSpec(shape, tf.uint8)
            return from_images(tf.map_fn(from_content, encoded, fn_output_signature=spec))

        @tf.function(input_signature=[], autograph=False)
        def names():
            return {CLASS_NAMES: tf.constant(list(class_names))}  # (K,)

        self.functions = {
            "serving_default": from_images,
            ENCODED: from_encoded,
            CLASS_NAMES: names,
        }
        # Those that the graph reads alone: what made a frozen map is none of them.
        self.weights = from_images.get_concrete_function().graph.variables

    def save(self, path: Path) -> None:
        """Writes a SavedModel."""
        tf.saved_model.save(self, str(path), signatures=self.functions)

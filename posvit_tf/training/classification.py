"""The objective of a classifier: cross-entropy, smoothed and weighted."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops
from ml_collections import ConfigDict

from posvit_tf.data.splits import Source
from posvit_tf.errors import UserError

TOP5_CLASSES = 20  # with fewer, chance alone is among five too often


def cross_entropy(
    targets: keras.KerasTensor,
    logits: keras.KerasTensor,
    label_smoothing: float,
    class_weights: np.ndarray | None,
) -> keras.KerasTensor:
    """l = sum_c t_c w_c l_c, where l_c is the smoothed cross-entropy with class c alone.

    Args:
        targets: t, (b, K), each row a mixture of classes that sums to 1.
        logits: (b, K).
        label_smoothing: share of l_c that is spread over all classes.
        class_weights: w, (K,) positive float32; None for ones.

    Returns:
        (b,) float32, in nats.
    """

    def smoothed(targets: keras.KerasTensor) -> keras.KerasTensor:
        return keras.losses.categorical_crossentropy(
            targets, logits, from_logits=True, label_smoothing=label_smoothing
        )  # (b,)

    if class_weights is None:
        return smoothed(targets)
    weighted = targets * class_weights  # (b,K)
    weight = ops.sum(weighted, axis=-1)  # (b,)
    # Keras's gradient holds only for targets that sum to 1.
    return weight * smoothed(weighted / weight[:, None])


def class_weights(config: ConfigDict, source: Source) -> np.ndarray | None:
    """w_c = n / (K n_c) for n training examples, n_c of them of class c; None without `class_weights`.

    Returns:
        (K,) float32, of mean 1 over the training examples.

    Raises:
        UserError: a class has no training example.
    """
    if not config.data.class_weights:
        return None
    labels = source.train.labels
    counts = np.bincount(labels, minlength=len(source.class_names))  # (K,)
    if not counts.all():
        raise UserError(
            f"data.class_weights=balanced, but class {source.class_names[counts.argmin()]!r} has no "
            'training image: widen data.train_split, or set data.class_weights=""'
        )
    return (len(labels) / (len(counts) * counts)).astype("float32")


def of(config: ConfigDict, source: Source, model: keras.Model) -> Classification:
    """The objective of a run of `classify`, smoothed and weighted as its config says."""
    return Classification(model, config.train.label_smoothing, class_weights(config, source))


class Classification:
    """The `Objective` of a classifier: `cross_entropy` of its logits with the labels.

    Args:
        model: images uint8 (B, H, W, C) -> logits (B, K).
        label_smoothing, class_weights: of `cross_entropy`; evaluation has no part in them.
    """

    variables = ()
    figures = ("loss", "accuracy")
    draws = 0

    def __init__(
        self,
        model: keras.Model,
        label_smoothing: float = 0.0,
        class_weights: np.ndarray | None = None,
    ):
        self.model = model
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def __call__(self, images, labels, draws):
        """As `Objective` says."""
        logits = self.model(images, training=True)  # (b,K)
        targets = ops.one_hot(labels, logits.shape[-1])  # (b,K)
        losses = cross_entropy(targets, logits, self.label_smoothing, self.class_weights)  # (b,)
        correct = ops.equal(ops.argmax(logits, axis=-1), labels)  # (b,)
        return losses, ops.cast(correct, "float32")

    def advance(self):
        """Nothing to do: it keeps nothing."""

    def outputs(self, images, draws):
        """The logits (b, K)."""
        return self.model(images, training=False)

    def measure(self, labels: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """As `Objective` says.

        Returns:
            loss: mean cross-entropy, in nats. accuracy. balanced_accuracy: mean over the classes of
            the split of the share of each that is recognised. top5_accuracy, from TOP5_CLASSES
            classes on: share of examples whose class is among the five largest logits. examples.
        """
        if not np.isfinite(outputs).all():
            raise UserError(
                "the model's outputs on the evaluation images are not finite: lower "
                "optimizer.learning_rate, or set precision=float32"
            )
        losses = keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)
        losses = ops.convert_to_numpy(losses)  # (n,)
        correct = outputs.argmax(axis=1) == labels
        counts = np.bincount(labels)
        recognised = np.bincount(labels, correct)
        figures = {
            "loss": float(losses.mean(dtype="float64")),
            "accuracy": float(correct.mean()),
            "balanced_accuracy": float((recognised[counts > 0] / counts[counts > 0]).mean()),
        }
        if outputs.shape[1] >= TOP5_CLASSES:
            among = ops.convert_to_numpy(ops.in_top_k(labels, outputs, 5))  # (n,)
            figures["top5_accuracy"] = float(among.mean())
        return {**figures, "examples": len(labels)}

    def score(self, figures: dict[str, float]) -> float:
        """The accuracy."""
        return figures["accuracy"]

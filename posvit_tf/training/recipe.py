"""What of an update is the same on every backend: the loss, and which variables seed the random layers."""

import keras
import numpy as np
from keras import ops


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states of the model's random layers, in the order of its layers."""
    return [v for v in model.non_trainable_variables if v.name == "seed_generator_state"]


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

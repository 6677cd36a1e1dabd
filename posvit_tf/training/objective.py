"""What a training minimises: the seam between the loop and what is learned."""

from collections.abc import Sequence
from typing import Protocol

import keras
import numpy as np


class Objective(Protocol):
    """From a model, images, labels and random numbers to a loss an example, and other figures.

    Made of keras.ops, so that the step of each backend can take it: `step` and `accelerator`.

    Attributes:
        model: whose trained variables the optimizer moves.
        variables: what it keeps beside the model, a teacher for instance: no gradient reaches it, and it
            is saved and resumed with the model's. Made in the scope of the model.
        figures: the names of what a call gives, as they stand in metrics.jsonl; "loss" is the first.
        draws: how many numbers in [0, 1) an example needs; they follow from the seed, the update and the
            example's place in it, whatever the number of devices.
    """

    model: keras.Model
    variables: Sequence[keras.Variable]
    figures: tuple[str, ...]
    draws: int

    def __call__(
        self, images: keras.KerasTensor, labels: keras.KerasTensor, draws: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, ...]:
        """The figures of each example, in training mode; the mean of the first one is minimised.

        Args:
            images: (b, H, W, C) uint8. labels: (b,) int32. draws: (b, draws) float32.

        Returns:
            (b,) float32 a figure.
        """

    def advance(self) -> None:
        """Moves its variables; called once an update, after the weights have moved."""

    def outputs(self, images: keras.KerasTensor, draws: keras.KerasTensor) -> keras.KerasTensor:
        """What `measure` needs of each image, (b, ...), in inference mode; arguments as for a call."""

    def measure(self, labels: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """The figures of a whole split: loss first, examples last.

        Args:
            labels: (n,). outputs: (n, ...).

        Raises:
            UserError: an output is not finite.
        """

    def score(self, figures: dict[str, float]) -> float:
        """How good a split's figures are: the weights of the highest score are the best."""


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states of the model's random layers, in the order of its layers."""
    return [v for v in model.non_trainable_variables if v.name == "seed_generator_state"]

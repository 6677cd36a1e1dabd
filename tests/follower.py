"""An objective with random numbers and a state of its own, on any backend: what the seam has to carry."""

import keras
from keras import ops

from posvit_tf.training.classification import Classification


class Follower(Classification):
    """l = (1/2 + u) * cross-entropy + |w - a|^2 / 100, a the average of the head's weights w so far."""

    figures = ("loss", "accuracy", "distance")
    draws = 1

    def __init__(self, model):
        super().__init__(model)
        self.head = model.get_layer("logits").kernel
        self.average = keras.Variable(
            "zeros", self.head.shape, trainable=False, aggregation="only_first_replica"
        )
        self.variables = [self.average]

    def __call__(self, images, labels, draws):
        losses, correct = super().__call__(images, labels, draws)
        distance = ops.sum(ops.square(self.head - self.average)) * ops.ones_like(losses)
        return (0.5 + draws[:, 0]) * losses + distance / 100, correct, distance

    def advance(self):
        self.average.assign(0.9 * self.average + 0.1 * self.head)


def of(config, source, model):
    """As `classification.of`."""
    return Follower(model)

"""An objective and its optimizer on the replicas of a tf.distribute strategy, as the loop asks for them."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.data import images, permute
from posvit_tf.data.splits import Source, Split
from posvit_tf.training.objective import Objective
from posvit_tf.training.step import make_forward, make_update


def distribute(strategy: tf.distribute.Strategy, make_dataset, split: Split, **options):
    """The dataset of every replica's share, from `images.train_dataset` or `images.eval_dataset`."""

    def worker_dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = context.num_replicas_in_sync // context.num_input_pipelines
        first = context.input_pipeline_id * local
        return make_dataset(
            split,
            own=range(first, first + local),
            replicas=context.num_replicas_in_sync,
            **options,
        )

    return strategy.distribute_datasets_from_function(worker_dataset)


def train_dataset(
    config: ConfigDict,
    strategy: tf.distribute.Strategy,
    split: Split,
    draws: int,
    start_update: int = 0,
):
    """Every replica's share of update `start_update` and of all later ones, as `config.data` says."""
    return distribute(
        strategy,
        images.train_dataset,
        split,
        batch_size=config.data.batch_size,
        accumulate=config.train.accumulate,
        seed=config.seed,
        crop_padding=config.data.crop_padding,
        flip=config.data.flip,
        policy=config.data.autoaugment,
        order=permute.pixel_order(config.data, split.images.shape),
        permute_first=config.data.permute_first,
        draws=draws,
        start_update=start_update,
    )


class Replicas:
    """The `loop.Trainer` of TensorFlow.

    Args:
        config: of the run.
        strategy: in whose scope objective and optimizer were made.
        objective: of a model of `config`.
        optimizer: of `optim.make`; evaluation needs none.
    """

    def __init__(
        self,
        config: ConfigDict,
        strategy: tf.distribute.Strategy,
        objective: Objective,
        optimizer: keras.optimizers.Optimizer | None = None,
    ):
        self.config, self.strategy = config, strategy
        self.objective, self.optimizer = objective, optimizer
        self.replicas = strategy.num_replicas_in_sync
        kinds = (kind for kind in ("TPU", "GPU") if tf.config.list_logical_devices(kind))
        self.device = next(kinds, "CPU")
        self.forward = make_forward(config, strategy, objective)

    def updates(self, source: Source, done: int) -> Iterator[tf.Tensor]:
        """As `loop.Trainer` says."""
        config, objective = self.config, self.objective
        update = make_update(config, self.strategy, objective, self.optimizer)
        dataset = train_dataset(config, self.strategy, source.train, objective.draws, done)
        for number, batch in enumerate(dataset, start=done):
            yield update(*batch, tf.constant(number, tf.int64))

    def settle(self) -> None:
        """Nothing to do: an update changes the variables themselves."""

    def scope(self) -> contextlib.AbstractContextManager:
        """The strategy's."""
        return self.strategy.scope()

    def outputs(self, split: Split) -> np.ndarray:
        """As `loop.Trainer` says."""
        data = self.config.data
        dataset = distribute(
            self.strategy,
            images.eval_dataset,
            split,
            batch_size=data.eval_batch_size,
            order=permute.pixel_order(data, split.images.shape),
            draws=self.objective.draws,
        )
        batches = [self.forward(*batch) for batch in dataset]
        return np.concatenate([b.numpy() for b in batches])[: len(split.labels)]

"""An objective and its optimizer on the device that JAX sees, as the loop asks for them; Keras on JAX."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import keras
import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data import permute
from posvit_tf.data.batches import updates_per_epoch
from posvit_tf.data.splits import Source, Split
from posvit_tf.training import optim
from posvit_tf.training.objective import Objective, seed_states

# of the model's weights, its other variables, the objective's and the optimizer's
State = tuple[list[jax.Array], list[jax.Array], list[jax.Array], list[jax.Array]]


def draw(key: jax.Array, count: int, *, padding: int, flip: bool) -> tuple[jax.Array, ...]:
    """Where each of `count` images is cropped, and whether it is mirrored: `data.augment.draw` of JAX.

    Returns:
        top, left: (count,) int32 in [0, 2 * padding]. mirrored: (count,) bool.
    """
    corner_key, flip_key = jax.random.split(key)
    top, left = jax.random.randint(corner_key, (2, count), 0, 2 * padding + 1)  # (count,) each
    return top, left, jax.random.bernoulli(flip_key, 0.5 if flip else 0.0, (count,))


def crop_and_flip(
    images: jax.Array, top: jax.Array, left: jax.Array, mirrored: jax.Array, *, padding: int
) -> jax.Array:
    """Crops and mirrors each image of (B, H, W, C) as drawn: `data.augment.crop_and_flip` of JAX."""
    _, height, width, _ = images.shape
    around = (padding, padding)
    images = jnp.pad(images, ((0, 0), around, around, (0, 0)))  # (B,H+2p,W+2p,C)
    rows = top[:, None] + jnp.arange(height)  # (B,H)
    columns = jnp.arange(width)
    columns = jnp.where(mirrored[:, None], columns[::-1], columns) + left[:, None]  # (B,W)
    index = jnp.arange(len(images))[:, None, None]
    return images[index, rows[:, :, None], columns[:, None, :]]  # (B,H,W,C)


def make_update(
    config: ConfigDict, objective: Objective, optimizer: keras.optimizers.Optimizer
) -> Callable:
    """The update of `step.make_update` as a pure function, on one device.

    Returns:
        update(state, images, labels, draws, number) -> (state, the objective's figures (F,)). images
        (k, b, H, W, C) uint8, labels (k, b), draws (k, b, D); number is the update's, counted from 0.
    """
    model = objective.model
    micro_batches = config.train.accumulate
    examples = config.data.batch_size * micro_batches
    clip_norm = config.optimizer.clip_norm
    coupled_l2 = 0.0 if config.optimizer.name == "adamw" else config.optimizer.weight_decay
    decayed = {id(v) for v in optim.decayed(model)}
    seeds = {id(v): layer for layer, v in enumerate(seed_states(model))}
    optim.scale_steps(optimizer, model, config.optimizer.map_rate)

    def seeded(frozen: list[jax.Array], step: jax.Array) -> list[jax.Array]:
        return [
            jnp.stack([config.seed * len(seeds) + seeds[id(v)], step]).astype(value.dtype)
            if id(v) in seeds
            else value
            for v, value in zip(model.non_trainable_variables, frozen, strict=True)
        ]

    def holding(weights, frozen, own):
        variables = (model.trainable_variables, model.non_trainable_variables, objective.variables)
        pairs = zip(itertools.chain(*variables), [*weights, *frozen, *own], strict=True)
        return keras.StatelessScope(state_mapping=list(pairs))

    def loss(weights, frozen, own, *batch):
        with holding(weights, frozen, own):
            values = objective(*batch)  # F of (b,)
        figures = jnp.stack([value.sum() for value in values]) / examples  # (F,)
        return figures[0], figures

    def update(state: State, images, labels, draws, number):
        weights, frozen, own, slots = state
        parts = []
        for micro in range(micro_batches):
            here = seeded(frozen, number * micro_batches + micro)
            batch = images[micro], labels[micro], draws[micro]
            parts.append(jax.grad(loss, has_aux=True)(weights, here, own, *batch))
        gradients, figures = jax.tree.map(lambda *values: sum(values), *parts)
        if clip_norm:
            norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients))
            gradients = [g * (clip_norm / jnp.maximum(norm, clip_norm)) for g in gradients]
        if coupled_l2:
            gradients = [
                g + coupled_l2 * value if id(v) in decayed else g
                for g, v, value in zip(gradients, model.trainable_variables, weights, strict=True)
            ]
        weights, slots = optimizer.stateless_apply(slots, gradients, weights)
        with holding(weights, frozen, own) as scope:
            objective.advance()
        own = [scope.get_current_value(v) for v in objective.variables]
        return (weights, frozen, own, slots), figures

    return update


class Accelerator:
    """The `loop.Trainer` of JAX: one device, which holds the training images, too.

    Order, crops and dropout are pure functions of the seed and the update's number, so a run goes on
    anywhere; they are other numbers than TensorFlow's.

    Args:
        config: of the run.
        objective: of a model of `config`.
        optimizer: of `optim.make`.
    """

    replicas = 1

    def __init__(
        self, config: ConfigDict, objective: Objective, optimizer: keras.optimizers.Optimizer
    ):
        self.config, self.objective, self.optimizer = config, objective, optimizer
        self.device = jax.default_backend().upper()
        self.state = None  # newer than the variables, which JAX cannot change in place

        @jax.jit
        def forward(values, images, draws):
            variables = itertools.chain(*self.variables()[:3])
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                return objective.outputs(images, draws)

        self.forward = forward

    def updates(self, source: Source, done: int) -> Iterator[jax.Array]:
        """As `loop.Trainer` says."""
        config, n = self.config, len(source.train.labels)
        micro_batches, batch_size = config.train.accumulate, config.data.batch_size
        count = micro_batches * batch_size
        per_epoch = updates_per_epoch(n, batch_size, micro_batches)
        padding, flip = config.data.crop_padding, config.data.flip
        first = config.data.permute_first
        places = permute.pixel_order(config.data, source.train.images.shape)  # (H*W,)
        update = make_update(config, self.objective, self.optimizer)
        order_key, augment_key, draws_key = jax.random.split(jax.random.key(config.seed), 3)

        @jax.jit
        def shuffled(epoch):
            return jax.random.permutation(jax.random.fold_in(order_key, epoch), n)  # (n,)

        @partial(jax.jit, donate_argnums=0)
        def step(state, images, labels, order, number):
            start = number % per_epoch * count
            chosen = jax.lax.dynamic_slice(order, (start,), (count,))  # (k*B,)
            batch = permute.permuted(images[chosen], places if first else None)  # (k*B,H,W,C)
            if padding or flip:
                key = jax.random.fold_in(augment_key, number)
                drawn = draw(key, count, padding=padding, flip=flip)
                batch = crop_and_flip(batch, *drawn, padding=padding)
            batch = permute.permuted(batch, None if first else places)  # (k*B,H,W,C)
            batch = batch.reshape(micro_batches, batch_size, *batch.shape[1:])  # (k,B,H,W,C)
            targets = labels[chosen].reshape(micro_batches, batch_size)  # (k,B)
            key = jax.random.fold_in(draws_key, number)
            draws = jax.random.uniform(key, (micro_batches, batch_size, self.objective.draws))
            return update(state, batch, targets, draws, number)

        images, labels = jax.device_put((source.train.images, source.train.labels))
        # Copies: a step takes its state's memory for the next one's.
        self.state = tuple([jnp.copy(v.value) for v in vs] for vs in self.variables())
        order = shuffled(done // per_epoch)  # (n,)
        for number in itertools.count(done):
            if number % per_epoch == 0:
                order = shuffled(number // per_epoch)  # (n,)
            self.state, figures = step(self.state, images, labels, order, number)
            yield figures

    def variables(self) -> tuple[list[keras.Variable], ...]:
        """The variables whose values make up the state."""
        model, own = self.objective.model, self.objective.variables
        weights, frozen = model.trainable_variables, model.non_trainable_variables
        return weights, frozen, own, self.optimizer.variables

    def settle(self) -> None:
        """As `loop.Trainer` says."""
        if self.state is not None:
            for variables, values in zip(self.variables(), self.state, strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(jnp.copy(value))

    def scope(self) -> contextlib.AbstractContextManager:
        """None is needed."""
        return contextlib.nullcontext()

    def outputs(self, split: Split) -> np.ndarray:
        """As `loop.Trainer` says."""
        values = [v.value for v in itertools.chain(*self.variables()[:3])]
        size, found = self.config.data.eval_batch_size, []
        places = permute.pixel_order(self.config.data, split.images.shape)  # (H*W,)
        for number, start in enumerate(range(0, len(split.labels), size)):
            part = permute.permuted(split.images[start : start + size], places)  # (<=B,H,W,C)
            part = np.pad(part, ((0, size - len(part)), (0, 0), (0, 0), (0, 0)))  # (B,H,W,C)
            draws = jax.random.uniform(jax.random.key(number), (size, self.objective.draws))
            found.append(self.forward(values, part, draws))  # (B,...)
        return np.concatenate(found)[: len(split.labels)]  # (n,...)

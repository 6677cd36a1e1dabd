"""One update of the weights, and one forward pass, on any number of replicas."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.errors import UserError
from posvit_tf.training import optim
from posvit_tf.training.fused import use_adam_kernel
from posvit_tf.training.recipe import cross_entropy, seed_states


def make_update(
    config: ConfigDict,
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    class_weights: np.ndarray | None = None,
) -> Callable:
    """g = sum(grad l) / n over the n examples of k micro-batches on all replicas, clipped, applied.

    Gradients are summed over replicas once an update and clipped as a sum; step count, schedule, decay
    and moving average move once an update. l is `cross_entropy`, with `class_weights` where given.

    A batch norm takes mean and variance over a micro-batch on all replicas, so it sees batch_size
    examples at once; its moving statistics move once an update, too, to the average of where each
    micro-batch would move them.

    Returns:
        update(images, labels, number) -> float32 [mean loss, accuracy] of the update's n examples, as
        a tensor that nobody has waited for. images (k, b, H, W, C) uint8 and labels (k, b) are one
        replica's; number is the update's, counted from 0.
    """
    replicas = strategy.num_replicas_in_sync
    micro_batches = config.train.accumulate
    examples = config.data.batch_size * micro_batches
    clip_norm = config.optimizer.clip_norm
    coupled_l2 = 0.0 if config.optimizer.name == "adamw" else config.optimizer.weight_decay
    decayed = {id(v) for v in optim.decayed(model)}
    weights = model.trainable_variables
    seeds = seed_states(model)
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    statistics = [v for layer in norms for v in (layer.moving_mean, layer.moving_variance)]
    if norms and replicas > 1:
        if config.train.jit_compile:
            raise UserError(
                "train.jit_compile=true cannot compile a batch norm that spans several devices: set it "
                "to false, or use strategy=one"
            )
        for layer in norms:
            layer.synchronized = True
    use_adam_kernel(optimizer)

    # XLA cannot hold the all-reduce: on several replicas it compiles what stands before it.
    def forward_backward(images, labels):
        targets = tf.one_hot(labels, model.output_shape[-1])  # (b,K)
        with tf.GradientTape() as tape:
            logits = model(images, training=True)  # (b,K)
            losses = cross_entropy(
                targets, logits, config.train.label_smoothing, class_weights
            )  # (b,)
            loss = tf.reduce_sum(losses) / examples
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, [v.value for v in weights])
        correct = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels  # (b,)
        accuracy = tf.reduce_sum(tf.cast(correct, tf.float32)) / examples
        return gradients, tf.stack([loss, accuracy])

    def replica_update(images, labels, number):
        context = tf.distribute.get_replica_context()
        sums = None
        start = [tf.identity(v.value) for v in statistics]
        # Unrolled: nothing that synchronises may stand in a loop of the graph.
        for micro in range(micro_batches):
            draw = (number * micro_batches + micro) * replicas + tf.cast(
                context.replica_id_in_sync_group, tf.int64
            )
            for layer, state in enumerate(seeds):
                state.assign(tf.stack([config.seed * len(seeds) + layer, draw]))
            for variable, value in zip(statistics, start, strict=True):
                variable.assign(value)
            gradients, figures = forward_backward(images[micro], labels[micro])
            moved = [v.value / (micro_batches * replicas) for v in statistics]
            part = [*gradients, *moved, figures]
            sums = part if sums is None else [a + b for a, b in zip(sums, part, strict=True)]
        *sums, figures = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
        gradients, moved = sums[: len(weights)], sums[len(weights) :]
        for variable, value in zip(statistics, moved, strict=True):
            variable.assign(value)
        scale = optimizer.scale_loss(1.0)
        if clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm * scale)
        if coupled_l2:
            gradients = [
                g + coupled_l2 * scale * v.value if id(v) in decayed else g
                for g, v in zip(gradients, weights, strict=True)
            ]
        optimizer.apply(gradients, weights)
        return figures

    if config.train.jit_compile and replicas == 1:
        replica_update = tf.function(replica_update, autograph=False, jit_compile=True)
    elif config.train.jit_compile:
        forward_backward = tf.function(forward_backward, autograph=False, jit_compile=True)

    @tf.function(autograph=False)
    def update(images, labels, number):
        figures = strategy.run(replica_update, (images, labels, number))
        return strategy.experimental_local_results(figures)[0]

    return update


def make_forward(
    config: ConfigDict, strategy: tf.distribute.Strategy, model: keras.Model
) -> Callable:
    """forward(images) -> logits of all replicas, in their order, dropout off.

    images (b, H, W, C) uint8 are one replica's; the logits are (replicas*b, K) float32, on every host.
    """

    @tf.function(autograph=False, jit_compile=config.train.jit_compile)
    def replica_forward(images):
        return model(images, training=False)

    @tf.function(autograph=False)
    def forward(images):
        return strategy.gather(strategy.run(replica_forward, (images,)), axis=0)  # (R*b,K)

    return forward

"""One update of the weights, and one forward pass, on any number of replicas."""

from collections.abc import Callable

import keras
import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.errors import UserError
from posvit_tf.training import optim
from posvit_tf.training.fused import use_adam_kernel
from posvit_tf.training.objective import Objective, seed_states


def make_update(
    config: ConfigDict,
    strategy: tf.distribute.Strategy,
    objective: Objective,
    optimizer: keras.optimizers.Optimizer,
) -> Callable:
    """g = sum(grad l) / n over the n examples of k micro-batches on all replicas, clipped, applied.

    Gradients are summed over replicas once an update and clipped as a sum; step count, schedule, decay,
    moving average and the objective's variables move once an update. l is the objective's loss.

    A batch norm takes mean and variance over a micro-batch on all replicas, so it sees batch_size
    examples at once; its moving statistics move once an update, too, to the average of where each
    micro-batch would move them.

    Returns:
        update(images, labels, draws, number) -> float32 (F,), the mean of each of the objective's figures
        over the update's n examples, as a tensor that nobody has waited for. images (k, b, H, W, C) uint8,
        labels (k, b) and draws (k, b, D) are one replica's; number is the update's, counted from 0.
    """
    model = objective.model
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
    optim.scale_steps(optimizer, model, config.optimizer.map_rate)

    # XLA cannot hold the all-reduce: on several replicas it compiles what stands before it.
    def forward_backward(images, labels, draws):
        with tf.GradientTape() as tape:
            values = objective(images, labels, draws)  # F of (b,)
            figures = [tf.reduce_sum(value) / examples for value in values]
            scaled = optimizer.scale_loss(figures[0])
        gradients = tape.gradient(scaled, [v.value for v in weights])
        return gradients, tf.stack(figures)

    def replica_update(images, labels, draws, number):
        context = tf.distribute.get_replica_context()
        sums = None
        start = [tf.identity(v.value) for v in statistics]
        # Unrolled: nothing that synchronises may stand in a loop of the graph.
        for micro in range(micro_batches):
            step = (number * micro_batches + micro) * replicas + tf.cast(
                context.replica_id_in_sync_group, tf.int64
            )
            for layer, state in enumerate(seeds):
                state.assign(tf.stack([config.seed * len(seeds) + layer, step]))
            for variable, value in zip(statistics, start, strict=True):
                variable.assign(value)
            gradients, figures = forward_backward(images[micro], labels[micro], draws[micro])
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
        objective.advance()
        return figures

    if config.train.jit_compile and replicas == 1:
        replica_update = tf.function(replica_update, autograph=False, jit_compile=True)
    elif config.train.jit_compile:
        forward_backward = tf.function(forward_backward, autograph=False, jit_compile=True)

    @tf.function(autograph=False)
    def update(images, labels, draws, number):
        figures = strategy.run(replica_update, (images, labels, draws, number))
        return strategy.experimental_local_results(figures)[0]

    return update


def make_forward(
    config: ConfigDict, strategy: tf.distribute.Strategy, objective: Objective
) -> Callable:
    """forward(images, draws) -> the objective's outputs of all replicas, in their order.

    images (b, H, W, C) uint8 and draws (b, D) are one replica's; the outputs are (replicas*b, ...), on
    every host.
    """

    @tf.function(autograph=False, jit_compile=config.train.jit_compile)
    def replica_forward(images, draws):
        return objective.outputs(images, draws)

    @tf.function(autograph=False)
    def forward(images, draws):
        return strategy.gather(strategy.run(replica_forward, (images, draws)), axis=0)  # (R*b,...)

    return forward

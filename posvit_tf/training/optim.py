"""Optimizer, learning-rate schedule and which weights decay."""

import keras
from ml_collections import ConfigDict

from posvit_tf.models.vit import map_variables

# biases, norms, positions, class token
NOT_DECAYED = {"bias", "gamma", "beta", "table", "token", "offsets", "token_scores"}


def warmup_updates(optimizer: ConfigDict, updates: int, per_epoch: int) -> int:
    """min(warmup_epochs, a tenth of the run), in updates."""
    return min(round(optimizer.warmup_epochs * per_epoch), updates // 10)


def schedule(
    optimizer: ConfigDict, updates: int, warmup: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """r(u) = r u/w for u < w, then r_f + (r - r_f) (1 + cos(pi (u - w)/(U - w)))/2.

    Args:
        optimizer: `config.optimizer`: r = learning_rate, r_f = final_learning_rate.
        updates: U, updates of the whole run.
        warmup: w, updates of warm-up.
    """
    peak = optimizer.learning_rate
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else peak,
        max(updates - warmup, 1),
        alpha=optimizer.final_learning_rate / peak if peak else 0.0,
        warmup_target=peak if warmup else None,
        warmup_steps=warmup,
    )


def decayed(model: keras.Model) -> list[keras.Variable]:
    """The trained weights that weight decay pulls to zero: all but those named in `NOT_DECAYED`."""
    return [v for v in model.trainable_variables if v.name not in NOT_DECAYED]


def scale_steps(optimizer: keras.optimizers.Optimizer, model: keras.Model, map_rate: float) -> None:
    """w <- w + c (w' - w), w' what the optimizer makes of w: c = map_rate for the maps' variables, else 1.

    Decoupled decay and the moving average are not scaled. Call it last: it wraps the update as it stands.

    Args:
        optimizer: built; within a LossScaleOptimizer, too.
        model: that it trains.
        map_rate: `config.optimizer.map_rate`.
    """
    if map_rate == 1.0:
        return
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    update_step, index = inner.update_step, inner._get_variable_index
    scaled = {index(v) for v in map_variables(model) if v.trainable}

    def scaled_step(gradient, variable, learning_rate):
        factor = map_rate if index(variable) in scaled else 1.0
        update_step(gradient, variable, learning_rate * factor)

    inner.update_step = scaled_step


def make(
    optimizer: ConfigDict,
    precision: str,
    model: keras.Model,
    learning_rate: keras.optimizers.schedules.LearningRateSchedule,
) -> keras.optimizers.Optimizer:
    """The built optimizer; call it in the strategy's scope.

    `adamw` decays the weights itself (decoupled, times the learning rate). `adam` and `sgd` (momentum
    0.9) leave that to the step, which adds weight_decay * weight to the gradient (coupled L2).

    Args:
        optimizer: `config.optimizer`.
        precision: `config.precision`; mixed_float16 wraps the optimizer in dynamic loss scaling.
        model: whose trained weights it moves.
        learning_rate: from `schedule`.
    """
    options = dict(
        learning_rate=learning_rate,
        use_ema=optimizer.ema_decay > 0.0,
        ema_momentum=optimizer.ema_decay,
        name="optimizer",
    )
    if optimizer.name == "adamw":
        made = keras.optimizers.AdamW(weight_decay=optimizer.weight_decay, **options)
        made.exclude_from_weight_decay(
            [v for v in model.trainable_variables if v.name in NOT_DECAYED]
        )
    elif optimizer.name == "adam":
        made = keras.optimizers.Adam(**options)
    else:
        made = keras.optimizers.SGD(momentum=0.9, **options)
    take_summed_gradients(made)
    if precision == "mixed_float16":
        made = keras.optimizers.LossScaleOptimizer(made, name="loss_scale")
    made.build(model.trainable_variables)
    return made


def take_summed_gradients(optimizer: keras.optimizers.Optimizer) -> None:
    """Stops Keras from summing gradients over the replicas a second time.

    The step sums once an update, since it clips the sum. This is the one private hook of Keras in use,
    and the reason for the pinned version.
    """
    optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables

"""Adam as one TensorFlow kernel a weight: Keras's own formula makes five passes over memory."""

import keras
import tensorflow as tf


def use_adam_kernel(optimizer: keras.optimizers.Optimizer) -> None:
    """m += (1-b1)(g - m);  v += (1-b2)(g^2 - v);  w -= r sqrt(1-b2^t)/(1-b1^t) m / (sqrt v + eps).

    The same numbers as Keras's, read and written once. Leaves optimizers other than Adam and AdamW as
    they are.

    Args:
        optimizer: built; within a LossScaleOptimizer, too.
    """
    adam = getattr(optimizer, "inner_optimizer", optimizer)
    if not isinstance(adam, keras.optimizers.Adam):
        return

    def update_step(gradient, variable, learning_rate):
        index = adam._get_variable_index(variable)
        step = tf.cast(adam.iterations.value + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=adam._momentums[index].value.handle,
            v=adam._velocities[index].value.handle,
            beta1_power=adam.beta_1**step,
            beta2_power=adam.beta_2**step,
            lr=learning_rate,
            beta1=adam.beta_1,
            beta2=adam.beta_2,
            epsilon=adam.epsilon,
            grad=gradient,
        )

    adam.update_step = update_step

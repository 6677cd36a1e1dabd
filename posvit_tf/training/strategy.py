"""Which devices a run uses."""

import functools

import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.errors import UserError


@functools.cache
def mirrored(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    """One strategy a process: the collectives of a second one clash with the first one's keys."""
    return tf.distribute.MirroredStrategy(devices)


def make(config: ConfigDict) -> tf.distribute.Strategy:
    """The tf.distribute strategy that `config.strategy` names; `auto` mirrors over several devices.

    Devices are the GPUs, or without any the CPU, split into `config.cpu_devices` logical ones.

    Raises:
        UserError: the strategy is not available, or the CPU can no longer be split.
    """
    if config.strategy in ("multiworker", "tpu"):
        raise UserError(
            f"strategy={config.strategy} is not in this version yet: use one, mirrored or auto"
        )
    if config.cpu_devices > 1:
        try:
            tf.config.set_logical_device_configuration(
                tf.config.list_physical_devices("CPU")[0],
                [tf.config.LogicalDeviceConfiguration()] * config.cpu_devices,
            )
        except RuntimeError:
            if len(tf.config.list_logical_devices("CPU")) != config.cpu_devices:
                raise UserError(
                    f"cpu_devices={config.cpu_devices} must be set before TensorFlow starts: "
                    "use a fresh Python process"
                ) from None
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if config.strategy == "mirrored" or (config.strategy == "auto" and len(devices) > 1):
        return mirrored(tuple(device.name for device in devices))
    return tf.distribute.get_strategy()

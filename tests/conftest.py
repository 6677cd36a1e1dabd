"""What every test shares: one TensorFlow with two logical CPUs, and a run small enough to repeat."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import posvit_tf  # noqa: F401, I001, before TensorFlow, which reads what it sets

import keras
import pytest
import tensorflow as tf

from posvit_tf import config

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

TINY = {
    "strategy": "one",
    "model.depth": 1,
    "model.width": 8,
    "model.heads": 2,
    "model.mlp_width": 8,
    "train.epochs": 2,
    "data.train_split": "train[:160]",
    "data.eval_split": "train[1400:]",
    "data.batch_size": 16,
    "eval.every_epochs": 1,
    "checkpoint.every_epochs": 1,
}


def load_tiny(changes=()):
    """A digits run of 2 epochs of 10 updates, with some fields changed."""
    return config.load("digits", {**TINY, **dict(changes)})


@pytest.fixture(scope="session")
def tiny():
    """tiny({"seed": 1}) -> a config."""
    return load_tiny


@pytest.fixture
def tiny_flags():
    """The run of `tiny` as flags of main.py."""
    return ["--config=digits", *(f"--config.{field}={value}" for field, value in TINY.items())]


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(0)

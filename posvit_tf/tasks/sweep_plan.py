"""What a sweep will cost, from a few updates of each of its models on this machine.

The images are noise of the right shape and number, so that nothing need be downloaded.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from ml_collections import ConfigDict

from posvit_tf.data.splits import Split
from posvit_tf.errors import UserError
from posvit_tf.models.build import build
from posvit_tf.tasks.sweep_runs import Run, cell_name, threads
from posvit_tf.training import loop, optim, run_files, strategy
from posvit_tf.training.classification import Classification
from posvit_tf.training.replicas import train_dataset
from posvit_tf.training.step import make_update

LEAST_SECONDS, LEAST_UPDATES = 3.0, 2  # that each model is timed
# Fresh processes, since TensorFlow does not survive a fork.
SPAWN = multiprocessing.get_context("spawn")


class Facts(NamedTuple):
    """What of a data set its cost depends on."""

    image_shape: tuple[int, int, int]
    classes: int
    train: int  # images
    test: int


FACTS = {
    "digits": Facts((8, 8, 1), 10, 1437, 360),
    "cifar10": Facts((32, 32, 3), 10, 50000, 10000),
    "cifar100": Facts((32, 32, 3), 100, 50000, 10000),
    "svhn_cropped": Facts((32, 32, 3), 10, 73257, 26032),
}


class Pace(NamedTuple):
    """Of a model on this machine, while `config.workers` of it are at work at once, as in the sweep."""

    images_per_second: float  # in training, of one of them
    flops: float  # of an image in training: three times those of its forward pass


def estimate(config: ConfigDict, runs: list[Run], workdir: Path) -> dict:
    """Measures each distinct model once; prints runs, steps, FLOPs and hours, and writes plan.json.

    Args:
        config: of the sweep. runs: all of it.
        workdir: for plan.json.

    Returns:
        {config, runs, finished, machine, cells: [{axes, runs, updates, images_per_second, flops,
        hours}], hours}; hours are those of what is not finished, in all with `config.workers` runs
        at once, without the start of a run.
    """
    paces: dict[str, Pace] = {}
    cells = []
    with (
        SPAWN.Manager() as manager,
        ProcessPoolExecutor(
            config.workers,
            SPAWN,
            tf.config.threading.set_intra_op_parallelism_threads,
            (threads(config.workers) if config.workers > 1 else 0,),
        ) as pool,
    ):
        together = [manager.Barrier(config.workers)] * config.workers
        for cell in config.cells:
            own = [run for run in runs if run.cell == cell]
            left = [run for run in own if run.result() is None]
            settings = own[0].config
            key = str([settings.model, settings.optimizer, settings.train, facts(settings)])
            if key not in paces:
                # Here first: a model that cannot be built must not leave the others waiting.
                flops = training_flops(settings)
                speeds = pool.map(speed, [settings] * config.workers, together)
                paces[key] = Pace(float(np.mean(list(speeds))), flops)
            updates, passes = lengths(settings)
            images_in_all = (
                updates * settings.data.batch_size * settings.train.accumulate + passes / 3
            )
            cells.append(
                {
                    "axes": cell["axes"],
                    "runs": len(left),
                    "updates": updates,
                    "images_per_second": paces[key].images_per_second,
                    "flops": images_in_all * paces[key].flops,
                    "hours": images_in_all / paces[key].images_per_second / 3600,
                }
            )
            print(
                f"  {cell_name(cell)}: {len(left)} runs of {updates:,} steps, "
                f"{cells[-1]['flops']:.2e} FLOPs and {cells[-1]['hours']:.2f} h each at "
                f"{paces[key].images_per_second:.0f} images/s",
                flush=True,
            )
    waiting = sum(cell["runs"] for cell in cells)
    plan = {
        "task": config.task,
        "config": config.name,
        "runs": len(runs),
        "finished": len(runs) - waiting,
        "machine": run_files.machine(),
        "workers": config.workers,
        "cells": cells,
        "hours": sum(cell["runs"] * cell["hours"] for cell in cells) / config.workers,
    }
    print(
        f"{plan['runs']} runs, {plan['finished']} finished before: "
        f"{sum(cell['runs'] * cell['updates'] for cell in cells):,} steps, "
        f"{sum(cell['runs'] * cell['flops'] for cell in cells):.2e} FLOPs, {plan['hours']:.1f} h with "
        f"{config.workers} at once on {plan['machine']}; a run's start and plots come on top"
    )
    run_files.write_json(workdir / "plan.json", plan)
    return plan


def facts(config: ConfigDict) -> Facts:
    """Of the run's data set.

    Raises:
        UserError: its size is not known here.
    """
    if config.data.name not in FACTS:
        raise UserError(
            f"a plan knows the sizes of {', '.join(FACTS)} only, not of {config.data.name}: "
            "start the sweep without `plan`"
        )
    return FACTS[config.data.name]


def lengths(config: ConfigDict) -> tuple[int, int]:
    """A run's updates, and the images that it evaluates in all."""
    data, known = config.data, facts(config)
    infos = {
        name: tfds.core.SplitInfo(name, [count], 0)
        for name, count in (("train", known.train), ("test", known.test))
    }

    def count(spec: str) -> int:
        parts = tfds.core.ReadInstruction.from_spec(spec).to_absolute(infos)
        return sum(
            len(range(infos[part.splitname].num_examples)[part.from_ : part.to]) for part in parts
        )

    plan = loop.plan(config, count(data.train_split), 1)
    evaluations = -(-plan.updates // (plan.per_epoch * config.eval.every_epochs))
    evaluated = evaluations * count(data.eval_split) if data.eval_split else 0
    return plan.updates, evaluated + count(data.test_split)


def noise_model(config: ConfigDict) -> keras.Model:
    """The model of a run, for images of noise."""
    known = facts(config)
    channels = known.image_shape[-1]
    return build(
        config,
        {
            "image_shape": known.image_shape,
            "class_names": tuple(map(str, range(known.classes))),
            "mean": (127.5,) * channels,
            "std": (64.0,) * channels,
        },
    )


def speed(config: ConfigDict, together: Barrier) -> float:
    """Trains a model for some seconds as a run does, on images of noise; returns images a second.

    Args:
        config: of a run.
        together: where the processes that measure at once wait for each other.
    """
    known = facts(config)
    devices = strategy.make(config)
    rng = np.random.default_rng(0)
    count = config.data.batch_size * config.train.accumulate
    split = Split(
        rng.integers(0, 256, (2 * count, *known.image_shape), np.uint8),
        rng.integers(0, known.classes, 2 * count, np.int32),
    )
    with devices.scope():
        objective = Classification(noise_model(config), config.train.label_smoothing)
        optimizer = optim.make(
            config.optimizer, config.precision, objective.model, config.optimizer.learning_rate
        )
    update = make_update(config, devices, objective, optimizer)
    batches = iter(train_dataset(config, devices, split, objective.draws))

    def updates(number: int) -> float:
        """Seconds of so many."""
        started = time.perf_counter()
        for _ in range(number):
            figures = update(*next(batches), tf.constant(0, tf.int64))
        figures.numpy()
        return time.perf_counter() - started

    updates(1)  # traces
    together.wait()
    number, seconds = 0, 0.0
    while number < LEAST_UPDATES or seconds < LEAST_SECONDS:
        seconds += updates(LEAST_UPDATES)
        number += LEAST_UPDATES
    return number * count / seconds


def training_flops(config: ConfigDict) -> float:
    """3 F / B floating-point operations an image in training, F of the forward pass of a batch of B images.

    Counted by TensorFlow's profiler; what is shared by all images of a batch, as positional maps are,
    counts once a batch.

    Args:
        config: of a run.
    """
    model = noise_model(config)
    batch = config.data.batch_size * config.train.accumulate
    forward = tf.function(lambda x: model(x, training=False), autograph=False)
    spec = tf.TensorSpec((batch, *model.input.shape[1:]), tf.uint8)
    options = tf.compat.v1.profiler.ProfileOptionBuilder(
        tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    )
    options = options.with_empty_output().build()
    graph = forward.get_concrete_function(spec).graph
    return 3 * tf.compat.v1.profiler.profile(graph, options=options).total_float_ops / batch

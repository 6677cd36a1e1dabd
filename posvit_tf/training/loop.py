"""The training loop: one for every backend and strategy, read from top to bottom. Imports no TensorFlow."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import keras
import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data import batches
from posvit_tf.data.sources import Source, Split
from posvit_tf.errors import UserError
from posvit_tf.training import checkpoint, optim
from posvit_tf.training.cluster import Processes
from posvit_tf.training.interrupt import Interrupt, command_to_go_on
from posvit_tf.training.logbook import Logbook, Progress

LOG_EVERY = 50  # updates; the host waits for the device only then
TOP5_CLASSES = 20  # with fewer, chance alone is among five too often


@dataclass(frozen=True)
class Plan:
    """Lengths of a run in updates, and the share of a replica, derived from the config at use."""

    per_epoch: int
    updates: int
    warmup: int
    share: int  # of a batch, in examples, that one replica takes

    def epoch(self, update: int) -> int:
        """The epoch, counted from 1, of the last of `update` updates."""
        return max(update - 1, 0) // self.per_epoch + 1


def plan(config: ConfigDict, n: int, replicas: int) -> Plan:
    """The run's lengths for a training set of n images; `train.steps` wins over `train.epochs`.

    Raises:
        UserError: the training set does not fill an update, or a batch does not divide by the replicas.
    """
    batches.replica_batch_size(config.data.eval_batch_size, replicas, "data.eval_batch_size")
    share = batches.replica_batch_size(config.data.batch_size, replicas, "data.batch_size")
    steps, epochs = config.train.steps, config.train.epochs
    per_epoch = batches.updates_per_epoch(n, config.data.batch_size, config.train.accumulate)
    updates = steps if steps is not None else epochs * per_epoch
    warmup = optim.warmup_updates(config.optimizer, updates, per_epoch)
    return Plan(per_epoch, updates, warmup, share)


def out_of_memory(config: ConfigDict) -> UserError:
    """What to do when a device's memory does not hold an update or an evaluation."""
    return UserError(
        f"out of memory with data.batch_size={config.data.batch_size} and "
        f"data.eval_batch_size={config.data.eval_batch_size}: halve them; "
        "train.accumulate=2 then trains alike"
    )


class Trainer(Protocol):
    """A model and its optimizer on the devices of a backend: `Replicas` or `Accelerator`.

    Attributes:
        replicas: on how many devices.
        device: their kind: CPU, GPU or TPU.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    replicas: int
    device: str

    def updates(self, source: Source, done: int) -> Iterator:
        """Makes update `done`, counted from 0, and all later ones, each when it is asked for.

        Yields:
            [mean loss, accuracy] of the update's examples, which nobody has waited for.
        """

    def settle(self) -> None:
        """Lets the variables of model and optimizer hold the values of the last update."""

    def scope(self) -> contextlib.AbstractContextManager:
        """Inside, the variables may be set from each other."""

    def logits(self, split: Split) -> np.ndarray:
        """float32 (n, K) of the images of a split, in its order, by the variables as they stand."""


def fingerprint(split: Split) -> str:
    """SHA-256 of images and labels: a run is not resumed on other data."""
    images = split.images
    if not isinstance(images, np.ndarray):
        digest = hashlib.sha256(f"{images.shape} {''.join(images.digests)}".encode())
    else:
        digest = hashlib.sha256(np.ascontiguousarray(images))
    digest.update(np.ascontiguousarray(split.labels))
    return digest.hexdigest()


def class_weights(config: ConfigDict, source: Source) -> np.ndarray | None:
    """w_c = n / (K n_c) for n training examples, n_c of them of class c; None without `class_weights`.

    Returns:
        (K,) float32, of mean 1 over the training examples.

    Raises:
        UserError: a class has no training example.
    """
    if not config.data.class_weights:
        return None
    labels = source.train.labels
    counts = np.bincount(labels, minlength=len(source.class_names))  # (K,)
    if not counts.all():
        raise UserError(
            f"data.class_weights=balanced, but class {source.class_names[counts.argmin()]!r} has no "
            'training image: widen data.train_split, or set data.class_weights=""'
        )
    return (len(labels) / (len(counts) * counts)).astype("float32")


def measure(labels: np.ndarray, logits: np.ndarray) -> dict:
    """The figures of a split; smoothing and class weights have no part in them.

    Args:
        labels: (n,). logits: (n, K).

    Returns:
        loss: mean cross-entropy, in nats. accuracy. balanced_accuracy: mean over the classes of
        the split of the share of each that is recognised. top5_accuracy, from TOP5_CLASSES
        classes on: share of examples whose class is among the five largest logits. examples.

    Raises:
        UserError: a logit is not finite.
    """
    if not np.isfinite(logits).all():
        raise UserError(
            "the model's outputs on the evaluation images are not finite: lower "
            "optimizer.learning_rate, or set precision=float32"
        )
    losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    losses = keras.ops.convert_to_numpy(losses)  # (n,)
    correct = logits.argmax(axis=1) == labels
    counts = np.bincount(labels)
    recognised = np.bincount(labels, correct)
    figures = {
        "loss": float(losses.mean(dtype="float64")),
        "accuracy": float(correct.mean()),
        "balanced_accuracy": float((recognised[counts > 0] / counts[counts > 0]).mean()),
    }
    if logits.shape[1] >= TOP5_CLASSES:
        among = keras.ops.convert_to_numpy(keras.ops.in_top_k(labels, logits, 5))  # (n,)
        figures["top5_accuracy"] = float(among.mean())
    return {**figures, "examples": len(labels)}


@contextlib.contextmanager
def averaged(trainer: Trainer) -> Iterator[None]:
    """Inside, the model holds the moving averages of its weights, where the optimizer keeps any."""
    optimizer = trainer.optimizer
    keeper = getattr(optimizer, "inner_optimizer", optimizer)  # within a LossScaleOptimizer
    if not keeper.use_ema or not int(np.asarray(keeper.iterations.value)):
        yield
        return
    weights = trainer.model.trainable_variables
    kept = [np.asarray(v.value).copy() for v in weights]
    with trainer.scope():
        keeper.finalize_variable_values(weights)
    yield
    for variable, value in zip(weights, kept, strict=True):
        variable.assign(value)


def train(
    config: ConfigDict,
    workdir: Path,
    run: Plan,
    processes: Processes,
    source: Source,
    trainer: Trainer,
    board: Callable | None = None,
) -> Logbook:
    """Trains to the end of the plan `run`, from the last checkpoint of the workdir if there is one.

    On return the model holds the last weights, and checkpoints/best.npz the ones to report: the best on
    the eval split, or the last without one; with a moving average on, the averaged ones.
    `board` goes to the `Logbook`.

    Raises:
        UserError: a loss that is not finite, data or model other than the checkpoint's, out of memory.
        SystemExit: 130 after Ctrl-C, 143 after SIGTERM, with the run saved.
    """
    # ---------------------------------------------------------------- what the run is
    learning_rate = optim.schedule(config.optimizer, run.updates, run.warmup)
    variables = {
        **checkpoint.named(trainer.model.variables, "model"),
        **checkpoint.named(trainer.optimizer.variables, "optimizer"),
    }
    folder = workdir / "checkpoints"
    record = {
        "seed": config.seed,
        "batch_size": config.data.batch_size,
        "accumulate": config.train.accumulate,
        "backend": keras.backend.backend(),  # each draws order, crops and dropout in its own way
        "data": fingerprint(source.train),
        "eval_data": source.eval and fingerprint(source.eval),  # on which the best was found
        "facts": source.facts,
        "model": config.model.to_dict(),
    }

    # ---------------------------------------------------------------- where it stands
    done, best, seconds_before, figures = 0, None, 0.0, []
    examples = config.data.batch_size * config.train.accumulate  # of an update
    restored = checkpoint.latest(folder)
    if restored is not None:
        arrays, meta = restored
        for key in ("seed", "batch_size", "accumulate", "backend", "data", "eval_data"):
            if meta.get(key) != record[key]:
                raise UserError(
                    f"the checkpoint in {folder} is of a run on other {key} ({meta.get(key)} there, "
                    f"{record[key]} here): bring the old {key} back or choose another --workdir"
                )
        done, best, seconds_before = meta["update"], meta["best"], meta["seconds"]
        if best is not None:
            checkpoint.load(folder / "best.npz")  # a broken one is told now, not after the training
        figures = list(arrays.pop("figures"))
        checkpoint.assign(variables, arrays, f"the checkpoint in {folder}")
    chief = processes.place.chief
    progress = Progress(done, run.updates, examples, chief)
    if restored is not None:
        progress.say(f"resumed at update {done} of {run.updates}")
    if processes.place.count > 1 and not processes.alike(done, record, fingerprint(source.test)):
        raise UserError(
            f"the processes do not start alike: each must see the same data and, in {workdir}, the same "
            f"checkpoints; this one stands at update {done} with data {record['data'][:8]}"
        )
    if chief:
        checkpoint.set_aside(folder, done)
    log = Logbook(workdir, done, chief, board)
    started = time.monotonic()

    def seconds() -> float:
        return seconds_before + time.monotonic() - started

    def save() -> None:
        if not chief:
            return
        trainer.settle()
        arrays = {**checkpoint.values(variables), "figures": np.array(figures, "float32")}
        meta = {**record, "update": done, "best": best, "seconds": seconds()}
        checkpoint.save(folder / f"update_{done:09d}.npz", arrays, meta)
        checkpoint.keep_newest(folder, config.checkpoint.keep)

    def save_best(figure: dict | None) -> None:
        if not chief:
            return
        weights = checkpoint.values(checkpoint.named(trainer.model.weights, "weights"))
        checkpoint.save(folder / "best.npz", weights, {**record, "update": done, "eval": figure})

    # ---------------------------------------------------------------- the updates
    updates = trainer.updates(source, done)
    with Interrupt() as interrupt:
        while done < run.updates:
            figures.append(next(updates))
            done += 1
            last = done == run.updates
            epoch_ends = done % run.per_epoch == 0
            epoch = run.epoch(done)

            if done % LOG_EVERY == 0 or epoch_ends or last:
                figures = np.array(figures)  # (updates since the last line, 2)
                bad = np.flatnonzero(~np.isfinite(figures[:, 0]))
                if len(bad):
                    kept = sorted(folder.glob("update_*.npz"))
                    raise UserError(
                        f"the loss is not finite at update {done - len(figures) + bad[0] + 1}; "
                        + (f"{kept[-1]} is kept: " if kept else "there is no checkpoint yet: ")
                        + "lower optimizer.learning_rate"
                        + ("" if config.optimizer.clip_norm else " or set optimizer.clip_norm=1.0")
                    )
                loss, accuracy = (float(f) for f in figures.mean(axis=0, dtype="float64"))
                pace = progress.show(done, epoch, loss, accuracy)
                log.write(
                    step=done,
                    epoch=epoch,
                    split="train",
                    loss=loss,
                    accuracy=accuracy,
                    examples=len(figures) * examples,
                    seconds=seconds(),
                    learning_rate=float(learning_rate(done - 1)),
                    images_per_second=pace,
                )
                figures = []

            if source.eval is not None and (
                last or (epoch_ends and epoch % config.eval.every_epochs == 0)
            ):
                trainer.settle()
                with averaged(trainer):
                    figure = measure(source.eval.labels, trainer.logits(source.eval))
                    log.write(step=done, epoch=epoch, split="eval", **figure, seconds=seconds())
                    progress.say(
                        f"epoch {epoch}: eval loss {figure['loss']:.4f}, "
                        f"accuracy {figure['accuracy']:.4f} over {figure['examples']} images"
                    )
                    if best is None or figure["accuracy"] > best["accuracy"]:
                        best = {**figure, "step": done, "epoch": epoch}
                        save_best(best)

            # Signals reach one process, and all have to stop at the same update.
            asked = max(processes.values(interrupt.asked))
            if last or asked or (epoch_ends and epoch % config.checkpoint.every_epochs == 0):
                save()
            if asked and not last:
                progress.say(
                    f"saved at update {done} of {run.updates}; go on with: {command_to_go_on(workdir)}"
                )
                raise SystemExit(asked)

    if best is None:
        trainer.settle()
        with averaged(trainer):
            save_best(None)
    processes.values(done)  # waits until the chief has written best.npz
    return log

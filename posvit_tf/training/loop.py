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
from posvit_tf.data.splits import Source, Split
from posvit_tf.errors import UserError
from posvit_tf.training import checkpoint, optim
from posvit_tf.training.cluster import Processes
from posvit_tf.training.interrupt import Interrupt, command_to_go_on
from posvit_tf.training.logbook import Logbook, Progress, figures_text
from posvit_tf.training.objective import Objective

LOG_EVERY = 50  # updates; the host waits for the device only then


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
    """An objective and its optimizer on the devices of a backend: `Replicas` or `Accelerator`.

    Attributes:
        replicas: on how many devices.
        device: their kind: CPU, GPU or TPU.
    """

    objective: Objective
    optimizer: keras.optimizers.Optimizer
    replicas: int
    device: str

    def updates(self, source: Source, done: int) -> Iterator:
        """Makes update `done`, counted from 0, and all later ones, each when it is asked for.

        Yields:
            The mean of each of the objective's figures over the update's examples, which nobody has
            waited for.
        """

    def settle(self) -> None:
        """Lets the variables of model, objective and optimizer hold the values of the last update."""

    def scope(self) -> contextlib.AbstractContextManager:
        """Inside, the variables may be set from each other."""

    def outputs(self, split: Split) -> np.ndarray:
        """The objective's outputs (n, ...) of the images of a split, in its order, by the variables."""


def fingerprint(split: Split) -> str:
    """SHA-256 of images and labels: a run is not resumed on other data."""
    images = split.images
    if not isinstance(images, np.ndarray):
        digest = hashlib.sha256(f"{images.shape} {''.join(images.digests)}".encode())
    else:
        digest = hashlib.sha256(np.ascontiguousarray(images))
    digest.update(np.ascontiguousarray(split.labels))
    return digest.hexdigest()


@contextlib.contextmanager
def averaged(trainer: Trainer) -> Iterator[None]:
    """Inside, the model holds the moving averages of its weights, where the optimizer keeps any."""
    optimizer = trainer.optimizer
    keeper = getattr(optimizer, "inner_optimizer", optimizer)  # within a LossScaleOptimizer
    if not keeper.use_ema or not int(np.asarray(keeper.iterations.value)):
        yield
        return
    weights = trainer.objective.model.trainable_variables
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
    objective = trainer.objective
    variables = {
        **checkpoint.named(objective.model.variables, "model"),
        **checkpoint.named(trainer.optimizer.variables, "optimizer"),
        **checkpoint.named(objective.variables, "objective"),
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
        weights = checkpoint.values(checkpoint.named(objective.model.weights, "weights"))
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
                figures = np.array(figures)  # (updates since the last line, F)
                bad = np.flatnonzero(~np.isfinite(figures).all(axis=1))
                if len(bad):
                    kept = sorted(folder.glob("update_*.npz"))
                    raise UserError(
                        f"the loss is not finite at update {done - len(figures) + bad[0] + 1}; "
                        + (f"{kept[-1]} is kept: " if kept else "there is no checkpoint yet: ")
                        + "lower optimizer.learning_rate"
                        + ("" if config.optimizer.clip_norm else " or set optimizer.clip_norm=1.0")
                    )
                means = figures.mean(axis=0, dtype="float64").tolist()
                line = dict(zip(objective.figures, means, strict=True))
                pace = progress.show(done, epoch, line)
                log.write(
                    step=done,
                    epoch=epoch,
                    split="train",
                    **line,
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
                    figure = objective.measure(source.eval.labels, trainer.outputs(source.eval))
                    log.write(step=done, epoch=epoch, split="eval", **figure, seconds=seconds())
                    seen = {name: figure[name] for name in objective.figures if name in figure}
                    progress.say(
                        f"epoch {epoch}: eval {figures_text(seen, ', ')} over {figure['examples']} images"
                    )
                    if best is None or objective.score(figure) > objective.score(best):
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

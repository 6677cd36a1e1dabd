"""Train a model on images, evaluate it, and leave a workdir that a person can read."""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
from ml_collections import ConfigDict

from posvit_tf.analysis import figures
from posvit_tf.data import permute, sources
from posvit_tf.errors import UserError
from posvit_tf.models.build import build, parameters
from posvit_tf.models.vit import freeze_attention, patch_for, wiring
from posvit_tf.pages import html
from posvit_tf.pages import run as page
from posvit_tf.training import checkpoint, loop, optim, pretrained, run_files
from posvit_tf.training.cluster import Processes


class Loaded(NamedTuple):
    """A trained model (uint8 images (B,H,W,C) -> logits (B,K)), its K class names and its config."""

    model: keras.Model
    class_names: tuple[str, ...]
    config: ConfigDict


def load(workdir: Path, precision: str = "") -> Loaded:
    """Gives a run's model back, with the weights it reported: the best on the eval split.

    Args:
        workdir: of the run.
        precision: in which the model computes, where not in the run's own.

    Raises:
        UserError: the folder holds no trained run, or one of another version.
    """
    recorded = run_files.read_json(workdir / "config.json")
    lacking = {"model.name", "data.name", "precision"} - run_files.flat(recorded).keys()
    if lacking:
        raise UserError(
            f"{workdir / 'config.json'} lacks {', '.join(sorted(lacking))}: it is of another version of "
            "posvit_tf or was changed; name another workdir, or train again"
        )
    config = ConfigDict(recorded)
    config.precision = precision or config.precision
    weights, meta = checkpoint.load(workdir / "checkpoints" / "best.npz")
    config.model.update(meta.get("model", {}))  # with what the config left to the data
    model = build(config, meta["facts"])
    checkpoint.assign(checkpoint.named(model.weights, "weights"), weights, str(workdir))
    return Loaded(model, tuple(meta["facts"]["class_names"]), config)


def load_with_data(workdir: Path, precision: str = "") -> tuple[Loaded, sources.Source]:
    """`load` of a finished run, and its data, read again.

    Raises:
        UserError: the folder holds no such run; or its data has changed: the classes, the size of the
            images or how many are held out. A folder is then cut anew, with images that the model was
            trained on among those that are to judge it.
    """
    loaded, result = load(workdir, precision), run_files.read_result(workdir)
    source = sources.load(loaded.config.data)

    def held_out(found: sources.Split | None) -> int:
        return len(found.labels) if found else 0

    changes = {
        "class names": tuple(source.class_names) != loaded.class_names,
        "image size": tuple(source.train.images.shape[1:]) != loaded.model.input_shape[1:],
        "number of eval images": held_out(source.eval)
        != (result["eval"] or {"examples": 0})["examples"],
        "number of test images": held_out(source.test) != result["test"]["examples"],
    }
    changed = [what for what, differs in changes.items() if differs]
    if changed:
        raise UserError(
            f"the data has changed since the run in {workdir} (another {', '.join(changed)}): bring it back "
            "as it was, or train again in another --workdir"
        )
    return loaded, source


def run(config: ConfigDict, workdir: Path) -> dict:
    """Trains `config` in `workdir`, or goes on where it stopped; writes result.json and plots/.

    Returns:
        The content of result.json.

    Raises:
        UserError: bad data or settings, a loss that is not finite, out of memory.
    """
    # Not above: the other functions also serve where TensorFlow is not installed.
    from posvit_tf.data import pictures
    from posvit_tf.training import strategy as strategies
    from posvit_tf.training.board import Board
    from posvit_tf.training.replicas import Replicas

    strategy = strategies.make(config)
    processes = strategies.processes(config, strategy)
    with strategies.explained(config), pictures.noticed():
        if processes.place.count > 1:
            token = workdir / run_files.LOCK  # the chief's, if all see one folder
            seen = token.read_text() if token.exists() else None
            if not processes.alike(sorted(run_files.flat(run_files.plain(config)).items()), seen):
                raise UserError(
                    f"process {processes.place.index} of {processes.place.count} was not started like the "
                    "others: all need the same config and a --workdir that is one folder for all of them"
                )
        keras.utils.set_random_seed(config.seed)
        source = sources.load(config.data)
        source, earlier = pretrained.find(config.init_from, workdir, source)
        config, derived = completed(config, source, earlier)
        if derived and processes.place.chief:
            print(f"chosen from the data: {' '.join(f'{f}={v}' for f, v in derived.items())}")
        with strategy.scope():
            model, optimizer, plan, table = start(
                config, source, earlier, strategy.num_replicas_in_sync
            )
        if table and processes.place.chief:
            print(table)
        trainer = Replicas(config, strategy, model, optimizer)
        return train_and_test(config, workdir, source, plan, processes, trainer, Board)


def start(
    config: ConfigDict,
    source: sources.Source,
    earlier: pretrained.Pretrained | None,
    replicas: int,
) -> tuple[keras.Model, keras.optimizers.Optimizer, loop.Plan, str]:
    """What a run starts from; the model is new or has what fits of earlier weights, which the text tells."""
    model, table = build(config, source.facts), ""
    if earlier and earlier.weights:
        table = pretrained.transplant(earlier, model, config.model, source.facts)
    if config.train.freeze_attention:
        freeze_attention(model)
    plan = loop.plan(config, len(source.train.labels), replicas)
    learning_rate = optim.schedule(config.optimizer, plan.updates, plan.warmup)
    optimizer = optim.make(config.optimizer, config.precision, model, learning_rate)
    return model, optimizer, plan, table


def train_and_test(
    config: ConfigDict,
    workdir: Path,
    source: sources.Source,
    plan: loop.Plan,
    processes: Processes,
    trainer: loop.Trainer,
    board: Callable | None = None,
) -> dict:
    """What `run` does once its model stands on its devices; on any backend.

    Returns:
        The content of result.json.
    """
    model = trainer.model
    if processes.place.chief:
        describe(config, source, trainer, plan)
    order = permute.pixel_order(config.data, source.train.images.shape)
    probe, first_maps = permute.permuted(source.train.images[:4], order), None
    # The seed alone makes them, so a resumed run has them, too; other weights are no start of this run.
    if config.model.name == "vit" and not config.init_from:
        first_maps = figures.attention_maps(model, probe)
    log = loop.train(config, workdir, plan, processes, source, trainer, board)
    weights = checkpoint.named(model.weights, "weights")
    digest = hashlib.sha256()
    for value in checkpoint.values(weights).values():
        digest.update(value.tobytes())
    best, record = checkpoint.load(workdir / "checkpoints" / "best.npz")
    checkpoint.assign(weights, best, str(workdir))
    logits = trainer.logits(source.test)
    test = loop.measure(source.test.labels, logits)

    seconds = log.lines[-1]["seconds"] if log.lines else 0.0
    epoch = plan.epoch(plan.updates)
    log.write(step=plan.updates, epoch=epoch, split="test", **test, seconds=seconds)
    result = {
        "task": config.task,
        "config": config.name,
        "seed": config.seed,
        "steps": plan.updates,
        "epochs": plan.updates / plan.per_epoch,
        "parameters": parameters(model),
        "replicas": trainer.replicas,
        "weights_sha256": digest.hexdigest(),
        "eval": record["eval"],
        "test": test,
        "seconds": seconds,
    }
    if processes.place.chief:
        movement = first_maps and figures.map_movement(
            first_maps, figures.attention_maps(model, probe)
        )
        result["map_movement"] = None if movement is None else movement.round(4).tolist()
        some = permute.permuted(source.test.images[:16], order)
        plots = figures.write_all(model, log.lines, workdir / "plots", some, movement)
        result["captions"] = {path.name: caption for path, caption in plots}
        run_files.write_json(workdir / "result.json", result)
        page.write(workdir, model, source.test, logits, source.class_names)
    return result


def completed(
    config: ConfigDict, source: sources.Source, earlier: pretrained.Pretrained | None
) -> tuple[ConfigDict, dict[str, int]]:
    """The config with the fields that it leaves to the data, and these fields alone.

    model.patch_size is that of earlier weights, else `patch_for`; data.batch_size the power of two that
    makes 20 updates an epoch, from 8 to 128, or below it what a smaller set fills; data.crop_padding an
    eighth of the shorter side.
    """
    n, (height, width, _) = len(source.train.labels), source.train.images.shape[1:]
    values = {
        "model.patch_size": lambda: (
            (earlier and earlier.record["model"].get("patch_size")) or patch_for(height, width)
        ),
        "data.batch_size": lambda: 2 ** int(math.log2(min(max(n / 20, 8), 128, n))),
        "data.crop_padding": lambda: min(height, width) // 8,
    }
    fields = run_files.flat(run_files.plain(config))
    derived = {field: value() for field, value in values.items() if fields.get(field, 0) is None}
    if derived:
        config = config.copy_and_resolve_references()
        config.update_from_flattened_dict(derived)
    return config, derived


def describe(
    config: ConfigDict, source: sources.Source, trainer: loop.Trainer, plan: loop.Plan
) -> None:
    """Prints what is about to run, with the lengths derived from the config."""
    model = trainer.model
    height, width, channels = source.train.images.shape[1:]
    sizes = {
        role: len(split.labels) if split else 0
        for role, split in (("train", source.train), ("eval", source.eval), ("test", source.test))
    }
    print(
        f"data: {source.name}, {height}x{width}x{channels}, {len(source.class_names)} classes, "
        f"{sizes['train']} train / {sizes['eval']} eval / {sizes['test']} test\n"
        f"{describe_model(config, model)}\n"
        f"{describe_cells(config.data)}"
        f"training: {plan.updates} updates ({plan.per_epoch} an epoch, {plan.warmup} of warm-up), "
        f"batch {config.data.batch_size} = {trainer.replicas} {trainer.device} x {plan.share}"
        + (f" x {config.train.accumulate} micro-batches" if config.train.accumulate > 1 else ""),
        flush=True,
    )


def describe_model(config: ConfigDict, model: keras.Model) -> str:
    """The lines that say what the model is."""
    size, fields = f"{parameters(model):,} parameters", config.model
    if fields.name != "vit":
        return f"model: {fields.name} of width {fields.width}, {size}, {config.precision}"
    std, added = wiring(fields.attention, fields.position_std, fields.add_positions)
    return (
        f"model: {fields.attention} attention, {size}, "
        f"{model.get_layer('block_1').output[1].shape[-1]} tokens, {config.precision}"
        f"{', maps fixed' if config.train.freeze_attention else ''}\n"
        f"positions: {fields.positions}"
        + (f", start std {std:g}" if fields.positions == "learned" else "")
        + (", added to the tokens" if added else ", not added to the tokens")
    )


def describe_cells(data: ConfigDict) -> str:
    """The line that says how the images are permuted, if they are."""
    if not data.cell_size:
        return ""
    when = "before" if data.permute_first else "after"
    return (
        f"permutation: cells of {data.cell_size}x{data.cell_size} pixels, "
        f"seed {data.permutation_seed}, {when} augmentation\n"
    )


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    test = result["test"]
    print(
        f"test accuracy {test['accuracy']:.4f} (loss {test['loss']:.4f}) over {test['examples']} images, "
        f"balanced {test['balanced_accuracy']:.4f}"
        + (f", top-5 {test['top5_accuracy']:.4f}" if "top5_accuracy" in test else "")
        + (
            f", weights of epoch {result['eval']['epoch']}, the best on the eval split"
            if result["eval"]
            else ""
        )
    )
    run_files.tell_files(result, workdir)
    if (workdir / html.NAME).exists():  # runs of older versions have none
        print(f"{workdir / html.NAME}: all of it as a page")

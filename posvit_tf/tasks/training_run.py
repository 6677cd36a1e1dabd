"""One training on images, from its start to its report, on any backend. Imports no TensorFlow."""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import keras
from ml_collections import ConfigDict

from posvit_tf.analysis import figures
from posvit_tf.data import permute
from posvit_tf.data.splits import Source
from posvit_tf.fields import flat
from posvit_tf.models.build import build, parameters
from posvit_tf.models.vit import freeze_attention, patch_for, wiring
from posvit_tf.tasks import mean_maps
from posvit_tf.training import checkpoint, loop, optim, pretrained, run_files
from posvit_tf.training.cluster import Processes
from posvit_tf.training.objective import Objective


def start(
    config: ConfigDict,
    source: Source,
    earlier: pretrained.Pretrained | None,
    replicas: int,
    make_objective: Callable[[ConfigDict, Source, keras.Model], Objective],
) -> tuple[Objective, keras.optimizers.Optimizer, loop.Plan, str]:
    """What a run starts from; the model is new or has what fits of earlier weights, which the text tells."""
    model, table = build(config, source.facts), ""
    if earlier and earlier.weights and mean_maps.fits(earlier, config):
        table = mean_maps.convert(earlier, model, config, source)
    elif earlier and earlier.weights:
        table = pretrained.transplant(earlier, model, config.model, source.facts)
    if config.train.freeze_attention:
        freeze_attention(model)
    objective = make_objective(config, source, model)
    plan = loop.plan(config, len(source.train.labels), replicas)
    learning_rate = optim.schedule(config.optimizer, plan.updates, plan.warmup)
    optimizer = optim.make(config.optimizer, config.precision, objective.model, learning_rate)
    return objective, optimizer, plan, table


def train_and_test(
    config: ConfigDict,
    workdir: Path,
    source: Source,
    plan: loop.Plan,
    processes: Processes,
    trainer: loop.Trainer,
    write_page: Callable,
    board: Callable | None = None,
) -> dict:
    """Trains, tests and reports, once the model stands on its devices.

    Args:
        write_page: writes report.html of (workdir, model, test split, its outputs, class names).
        board: goes to the `Logbook`.

    Returns:
        The content of result.json.
    """
    objective = trainer.objective
    model = objective.model
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
    outputs = trainer.outputs(source.test)
    processes.part()
    test = objective.measure(source.test.labels, outputs)

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
        write_page(workdir, model, source.test, outputs, source.class_names)
    return result


def completed(
    config: ConfigDict, source: Source, earlier: pretrained.Pretrained | None
) -> tuple[ConfigDict, dict[str, int]]:
    """The config with the fields that it leaves to the data, and these fields alone.

    model.patch_size is that of earlier weights, else `patch_for`; data.batch_size the power of two that
    makes 20 updates an epoch, from 8 to 128, or below it what a smaller set fills; data.crop_padding an
    eighth of the shorter side; model.add_positions is that of earlier weights, where it differs.
    """

    def added() -> bool | None:
        kinds = (fields for fields in (earlier and earlier.record["model"], config.model) if fields)
        there, *here = (
            wiring(m["attention"], m["position_std"], m["add_positions"])[1] for m in kinds
        )
        return there if here not in ([], [there]) else None

    n, (height, width, _) = len(source.train.labels), source.train.images.shape[1:]
    values = {
        "model.patch_size": lambda: (
            (earlier and earlier.record["model"].get("patch_size")) or patch_for(height, width)
        ),
        "data.batch_size": lambda: 2 ** int(math.log2(min(max(n / 20, 8), 128, n))),
        "data.crop_padding": lambda: min(height, width) // 8,
        "model.add_positions": added,
    }
    fields = flat(run_files.plain(config))
    derived = {field: value() for field, value in values.items() if fields.get(field, 0) is None}
    derived = {field: value for field, value in derived.items() if value is not None}
    if derived:
        config = config.copy_and_resolve_references()
        config.update_from_flattened_dict(derived)
    return config, derived


def describe(config: ConfigDict, source: Source, trainer: loop.Trainer, plan: loop.Plan) -> None:
    """Prints what is about to run, with the lengths derived from the config."""
    model = trainer.objective.model
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
        f"{model.get_layer('block_1').input[0].shape[1]} tokens, {config.precision}"
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

"""A run that starts from the weights of another: kept, resampled to another grid of patches, or new."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data.splits import Source
from posvit_tf.errors import UserError
from posvit_tf.layers.off_diagonal_attention import fixed_diagonal
from posvit_tf.layers.positions import resampling
from posvit_tf.models.vit import wiring
from posvit_tf.training import checkpoint

# fields of config.model that matter to a start or to training, not to what a trained weight means
FREE = {"position_std", "initial_maps", "dropout", "drop_path"}


class Pretrained(NamedTuple):
    """What a run goes on from.

    Attributes:
        record: of the checkpoint, with `model`, the fields of config.model, and `facts`, the `Source`'s.
        file: a best.npz, and None where they are the run's own checkpoints, which the loop restores.
        weights: its weights by name, none where `file` is None.
    """

    record: dict
    file: Path | None = None
    weights: Mapping[str, np.ndarray] = {}


def find(init_from: str, workdir: Path, source: Source) -> tuple[Source, Pretrained | None]:
    """What a run goes on from, and the data normalised as it was there.

    Args:
        init_from: `config.init_from`, a workdir or a best.npz that stands alone; not read where
            `workdir` has checkpoints of its own.
        workdir: of the run.
        source: the data to train on.

    Raises:
        UserError: the file is missing, damaged or no best.npz, or is of images of other channels.
    """
    record = checkpoint.latest_record(workdir / "checkpoints")
    if record is not None:
        return source.normalised_as(record["facts"]), Pretrained(record)
    if not init_from:
        return source, None
    start = Path(init_from).expanduser()
    file = start / "checkpoints" / "best.npz" if start.is_dir() else start
    weights, record = checkpoint.load(file)
    of_images = {"model", "facts"} <= record.keys()
    if not of_images or not all(name.startswith("weights/") for name in weights):
        raise UserError(
            f"{file} is not the best.npz of a run that trained on images: set init_from to such a "
            "file, or to a workdir that holds it as checkpoints/best.npz"
        )
    there, here = record["facts"]["image_shape"][2], source.train.images.shape[-1]
    if there != here:
        raise UserError(
            f"{file} was trained on images of {there} channels, and these have {here}: "
            "start from a run on images of as many"
        )
    return source.normalised_as(record["facts"]), Pretrained(record, file, weights)


def transplant(start: Pretrained, model: keras.Model, fields: ConfigDict, facts: dict) -> str:
    """Gives the model the weights of another run, and says what became of each.

    The head is kept only where the classes have the same names in the same order. Learned positions
    and free matrices go from the other grid of patches to this one by `resampling`, the free ones with
    their fixed diagonal; nothing makes up for the softmax, whose rows then spread over other numbers
    of keys. A sin-cos table is computed for this grid.

    Args:
        start: from `find`, with weights.
        model: to fill, built from `fields` and `facts`.
        fields: `config.model`.
        facts: the `Source`'s that the model is for.

    Returns:
        A table for people: what was loaded, resampled, new and left out.

    Raises:
        UserError: naming the weights that do not fit, and the fields that are why.
    """
    there, here = start.record["facts"], facts
    weights = checkpoint.named(model.weights, "weights")
    check(start, weights, fields.to_dict())
    matrix, grids = None, ""
    if "patch_size" in fields:
        size = fields.patch_size
        old, new = ([side // size for side in f["image_shape"][:2]] for f in (there, here))
        if old != new:
            matrix = resampling(old, new, class_token=fields.pool == "token")  # (N',N)
            grids = " {}x{} -> {}x{}".format(*old, *new)

    def head(classes: Sequence[str]) -> str:
        some = ", ".join(classes[:3]) + (", ..." if len(classes) > 3 else "")
        return f"logits of {len(classes)} classes ({some})"

    same_classes = list(there["class_names"]) == list(here["class_names"])
    fates = {fate: [] for fate in ("loaded", "resampled", "new", "left out")}  # of (what, shape)
    for name, variable in weights.items():
        _, _, path = name.split("/", 2)
        array, kind = start.weights[name], path.rpartition("/")[2]
        if path.startswith("logits/") and not same_classes:
            fates["new"].append((head(here["class_names"]), variable.shape))
            fates["left out"].append((head(there["class_names"]), array.shape))
        elif kind == "table" and fields.positions == "sincos":
            fates["new"].append((f"{path} (sin-cos)", variable.shape))
            fates["left out"].append((path, array.shape))
        elif kind in ("table", "off_diagonal") and matrix is not None:
            if kind == "off_diagonal":
                diagonal = model.get_layer("block_1").attention.diagonal
                array = np.asarray(fixed_diagonal(array, diagonal)) @ matrix.T  # (H,N,N')
            variable.assign(matrix @ array)  # (N',E) or (H,N',N')
            fates["resampled"].append((path + grids, variable.shape))
        else:
            variable.assign(array)
            fates["loaded"].append((path.partition("/")[0], array.shape))

    lines = [f"weights of {start.file}", f"  {'':9} {'weights':>8} {'numbers':>11}"]
    for fate, entries in fates.items():
        whats = ", ".join(dict.fromkeys(what for what, _ in entries))
        numbers = sum(math.prod(shape) for _, shape in entries)
        lines.append(f"  {fate:9} {len(entries):8} {numbers:11,}  {whats}".rstrip())
    mean, std = (" ".join(f"{v:.1f}" for v in there[key]) for key in ("mean", "std"))
    lines.append(f"  pixels are normalised as there: mean {mean}, standard deviation {std}")
    return "\n".join(lines)


def check(start: Pretrained, weights: dict[str, keras.Variable], fields: dict) -> None:
    """Raises UserError where the weights of `start` are those of another model than `fields` name."""

    def wired(fields: dict) -> dict:
        if "attention" not in fields:
            return fields
        _, added = wiring(fields["attention"], fields["position_std"], fields["add_positions"])
        return fields | {"add_positions": added}

    there, here = wired(start.record["model"]), wired(fields)
    changed = [k for k in sorted({*there, *here} - FREE) if there.get(k) != here.get(k)]
    misfits = [*(weights.keys() ^ start.weights.keys())]
    misfits += [
        name
        for name, variable in weights.items()
        if name in start.weights
        and not name.endswith(("/table", "/off_diagonal"))
        and "/logits/" not in name
        and tuple(variable.shape) != start.weights[name].shape
    ]
    # These fit by their shapes and mean something else.
    if {"attention", "heads"} & {*changed}:
        misfits += [name for name in weights if "/attention/" in name]
    if "add_positions" in changed:
        misfits += [name for name in weights if name.endswith("/table")]
    if misfits:
        misfits = sorted({*misfits})
        fields = ", ".join(f"model.{k}={here.get(k)} (there {there.get(k)})" for k in changed)
        raise UserError(
            f"{start.file} is of another model: {fields} does not fit {', '.join(misfits[:3])}"
            + (f" and {len(misfits) - 3} more" if len(misfits) > 3 else "")
            + ": set the model's fields as there, or leave init_from out"
        )

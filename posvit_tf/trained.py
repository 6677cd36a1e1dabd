"""A trained run given back: its model, with the weights it reported, and its data."""

from pathlib import Path
from typing import NamedTuple

import keras
from ml_collections import ConfigDict

from posvit_tf.config import complete
from posvit_tf.data import sources
from posvit_tf.data.splits import Source, Split
from posvit_tf.errors import UserError
from posvit_tf.models.build import build
from posvit_tf.training import checkpoint, run_files

FIELDS = "task model.name data.name precision"  # of its config; others have defaults


class Loaded(NamedTuple):
    """A trained model (uint8 images (B,H,W,C) -> logits (B,K)), its K class names and its config."""

    model: keras.Model
    class_names: tuple[str, ...]
    config: ConfigDict


def load(workdir: str | Path, precision: str = "") -> Loaded:
    """Gives a run's model back, with the weights it reported: the best on the eval split.

    Args:
        workdir: of the run.
        precision: in which the model computes, where not in the run's own.

    Raises:
        UserError: the folder holds no trained run, or one of another version.
    """
    workdir = Path(workdir).expanduser()
    config = ConfigDict(run_files.read_config(workdir, FIELDS))
    complete(config)
    config.precision = precision or config.precision
    weights, meta = checkpoint.load(workdir / "checkpoints" / "best.npz")
    config.model.update(meta.get("model", {}))  # with what the config left to the data
    model = build(config, meta["facts"])
    checkpoint.assign(checkpoint.named(model.weights, "weights"), weights, str(workdir))
    return Loaded(model, tuple(meta["facts"]["class_names"]), config)


def load_with_data(workdir: Path, precision: str = "") -> tuple[Loaded, Source]:
    """`load` of a finished run, and its data, read again.

    Raises:
        UserError: the folder holds no such run; or its data has changed: the classes, the size of the
            images or how many are held out. A folder is then cut anew, with images that the model was
            trained on among those that are to judge it.
    """
    loaded, result = load(workdir, precision), run_files.read_result(workdir)
    source = sources.load(loaded.config.data)

    def held_out(found: Split | None) -> int:
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

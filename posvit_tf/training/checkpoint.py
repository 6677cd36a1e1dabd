"""Everything a run needs to go on, in one file that is either whole or not there.

A checkpoint is an .npz of every variable (seed states too) with a JSON record beside them. It is written
to a temporary file, flushed to the disk and renamed, so that a kill or a full disk leaves the one before.
"""

import contextlib
import json
import os
import re
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np

from posvit_tf.errors import UserError

META = "meta"
BROKEN = (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile)


def named(variables: list[keras.Variable], prefix: str) -> dict[str, keras.Variable]:
    """prefix/index/path -> variable; automatic numbers (dense_18) differ within a process and go."""
    return {
        f"{prefix}/{i:04d}/{re.sub(r'_[0-9]+(?=/|$)', '', v.path)}": v
        for i, v in enumerate(variables)
    }


def values(variables: dict[str, keras.Variable]) -> dict[str, np.ndarray]:
    """The variables' values on the host."""
    return {name: np.asarray(v.value) for name, v in variables.items()}


def save(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Writes the file as a whole or not at all.

    Raises:
        UserError: a value is not finite, or the file cannot be written.
    """
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"{name} is not finite at update {meta['update']}, so {path} was not written: "
                "lower optimizer.learning_rate"
            )
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            np.savez(file, **{META: np.array(json.dumps(meta))}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {path}: {error.strerror}; the checkpoint before it is kept: "
            "make room or choose another --workdir"
        ) from error


def load(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """The arrays and the record of a file of `save`.

    Raises:
        UserError: the file is missing, truncated or no checkpoint.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist: name a workdir that holds a trained run")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return arrays, json.loads(str(arrays.pop(META)))
    except BROKEN as error:
        raise UserError(
            f"{path} is not a whole checkpoint: bring it back, or delete its folder to start again"
        ) from error


def latest_record(folder: Path) -> dict | None:
    """The newest record that can be read of a folder's update_*.npz, without the arrays."""
    for path in sorted(folder.glob("update_*.npz"), reverse=True):
        with contextlib.suppress(*BROKEN), np.load(path, allow_pickle=False) as file:
            return json.loads(str(file[META]))
    return None


def latest(folder: Path) -> tuple[dict[str, np.ndarray], dict] | None:
    """The newest readable update_*.npz of a folder, None where there is none; a warning names each skipped.

    Raises:
        UserError: there are some, and none can be read.
    """
    paths = sorted(folder.glob("update_*.npz"), reverse=True)
    for path in paths:
        try:
            return load(path)
        except UserError:
            print(
                f"warning: {path} is not a whole checkpoint; the one before it is used",
                file=sys.stderr,
            )
    if paths:
        raise UserError(
            f"no checkpoint in {folder} can be read: delete that folder to start again from the "
            "beginning, or choose another --workdir"
        )
    return None


def set_aside(folder: Path, update: int) -> None:
    """Renames the checkpoints past an update to *.broken: they could not be read."""
    for path in folder.glob("update_*.npz"):
        if int(path.stem.removeprefix("update_")) > update:
            path.rename(path.with_name(f"{path.name}.broken"))


def keep_newest(folder: Path, keep: int) -> None:
    """Deletes all but the newest `keep` of a folder's update_*.npz."""
    for path in sorted(folder.glob("update_*.npz"))[:-keep]:
        path.unlink()


def assign(
    variables: dict[str, keras.Variable], arrays: dict[str, np.ndarray], source: str
) -> None:
    """Sets every variable from the arrays; both must hold the same names, shapes and types.

    Raises:
        UserError: naming the first difference.
    """
    missing = [name for name in variables if name not in arrays]
    extra = [name for name in arrays if name not in variables]
    for names, what in ((missing, "lacks"), (extra, "holds unknown")):
        if names:
            raise UserError(
                f"{source} {what} {names[0]} (and {len(names) - 1} more): it is of another model; "
                "use the config it was trained with"
            )
    for name, variable in variables.items():
        array = arrays[name]
        if array.shape != tuple(variable.shape) or array.dtype != variable.dtype:
            raise UserError(
                f"{source}: {name} is {array.dtype} {array.shape}, but this model wants "
                f"{variable.dtype} {tuple(variable.shape)}: use the config it was trained with"
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])

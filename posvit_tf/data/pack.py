"""Writes a data set as the one file that `packed` reads where there is no TensorFlow."""

import os
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data import prepared
from posvit_tf.errors import UserError


def write(data: ConfigDict, path: Path) -> None:
    """Packs every split of the data set that `data` names, whole; needs TensorFlow.

    Args:
        data: `config.data`, of a prepared data set.
        path: of the file.

    Raises:
        UserError: the data set cannot be had, its images differ in size, or the file cannot be written.
    """
    if data.name == "digits":
        raise UserError("data.name=digits is not packed: train it without --data")
    builder = prepared.find(data.name, data.data_dir)
    if None in builder.info.features["image"].shape:
        raise UserError(
            f"the images of {data.name} differ in size: only data sets of one size are packed"
        )
    content = {"name": data.name, "class_names": builder.info.features["label"].names}
    for split in builder.info.splits:
        files, labels = prepared.encoded(builder, split)
        content[f"{split}/bytes"] = np.frombuffer(b"".join(files), "uint8")
        content[f"{split}/sizes"] = np.array([len(file) for file in files])
        content[f"{split}/labels"] = labels
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez_compressed(file, **content)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {path} ({error.strerror}): make room or choose another --data"
        ) from error

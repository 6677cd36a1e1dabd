"""A data set as one file of encoded images and labels, for machines without TensorFlow; `pack` writes it.

The file is a compressed .npz: `name`, `class_names`, and of each split on disk `SPLIT/bytes` (all its PNG or
JPEG files, one after the other, as tensorflow-datasets stores them), `SPLIT/sizes` (of each, in bytes) and
`SPLIT/labels`.
"""

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds
from ml_collections import ConfigDict
from PIL import Image

from posvit_tf.data.splits import Source, cut
from posvit_tf.errors import UserError


def decode(file: bytes) -> np.ndarray:
    """(H, W, C) uint8 of a PNG or JPEG file; a grey one has one channel.

    PNG gives TensorFlow's very pixels. Of a JPEG, TensorFlow computes the inverse cosine transform faster
    and less exactly, so that pixels differ by a few units.
    """
    pixels = np.asarray(Image.open(io.BytesIO(file)))
    return pixels if pixels.ndim == 3 else pixels[..., None]  # (H,W,C)


def _unreadable(path: Path, reason: Exception) -> UserError:
    return UserError(
        f"{path} is no whole packed data set ({reason}): "
        "`python -m posvit_tf.accelerated pack` writes one where TensorFlow is"
    )


def load(data: ConfigDict, path: Path) -> Source:
    """Decodes a file of `pack` into memory and cuts it as the split strings of `data` say.

    Args:
        data: `config.data`, as for `splits.cut`.
        path: of the file.

    Raises:
        UserError: the file is missing, damaged or of another data set; and as `splits.cut`.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {key: file[key] for key in file.files}
        name, class_names = str(content.pop("name")), tuple(content.pop("class_names").tolist())
        labels = {
            key.removesuffix("/labels"): content[key] for key in content if key.endswith("/labels")
        }
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from error
    if name != data.name:
        raise UserError(
            f"{path} holds {name}, but the config wants {data.name}: name its file by --data"
        )
    infos = {split: tfds.core.SplitInfo(split, [len(of)], 0) for split, of in labels.items()}

    def read(split: str) -> tuple[np.ndarray, np.ndarray]:
        try:
            ends = np.cumsum(content[f"{split}/sizes"])
            files = np.split(content[f"{split}/bytes"], ends[:-1])
            return np.stack([decode(file) for file in files]), labels[split]  # (n,H,W,C), (n,)
        except (KeyError, ValueError, OSError) as error:
            raise _unreadable(path, error) from error

    return cut(data, infos, class_names, read)

"""Data sets of tensorflow-datasets: found on disk, or downloaded where there is a network."""

import os
import re
import threading
from functools import partial

import numpy as np
import requests
import tensorflow as tf
import tensorflow_datasets as tfds
from google.protobuf.json_format import ParseError
from ml_collections import ConfigDict

from posvit_tf.data.splits import Source, cut
from posvit_tf.errors import UserError

PROBE_SECONDS = 2.0


def load(data: ConfigDict) -> Source:
    """The splits of `config.data` of a data set that `find` finds."""
    builder = find(data.name, data.data_dir)
    class_names = tuple(builder.info.features["label"].names)
    return cut(data, builder.info.splits, class_names, partial(read, builder))


def find(name: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Data set `name` as prepared in `data_dir`, else TFDS_DATA_DIR, else ~/tensorflow_datasets.

    Where it is not prepared it is downloaded, its size and place printed first.

    Args:
        name: as tensorflow-datasets spells it.
        data_dir: the directory that holds, or shall hold, name/VERSION.

    Raises:
        UserError: if it is neither there nor to be had, or cannot be read.
    """
    # tensorflow-datasets reads TFDS_DATA_DIR when it is imported, too early for a notebook.
    root = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    root = os.path.expanduser(root)
    try:
        builder = tfds.builder(name, data_dir=root)
    except (ParseError, OSError, ValueError) as error:
        raise _unreadable(os.path.join(root, name), error) from error
    if not builder.data_path.exists():
        _download(builder)
    if not builder.info.splits:
        raise _unreadable(builder.data_dir, "dataset_info.json is missing or lists no splits")
    return builder


def read(builder: tfds.core.DatasetBuilder, split: str) -> tuple[np.ndarray, np.ndarray]:
    """A whole split, in the order of its files: images (n, H, W, C) uint8, labels (n,) int32.

    Raises:
        UserError: if a file is missing, cut short or garbled.
    """
    return _read(builder, split)


def encoded(builder: tfds.core.DatasetBuilder, split: str) -> tuple[list[bytes], np.ndarray]:
    """As `read`, with each image as the PNG or JPEG file that is stored.

    Raises:
        UserError: as `read`.
    """
    files, labels = _read(builder, split, decoders={"image": tfds.decode.SkipDecoding()})
    return files.tolist(), labels


def _read(
    builder: tfds.core.DatasetBuilder, split: str, **options
) -> tuple[np.ndarray, np.ndarray]:
    try:
        images, labels = builder.as_dataset(
            split=split,
            batch_size=-1,
            as_supervised=True,
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
            **options,
        )
    except (tf.errors.OpError, OSError, ValueError) as error:
        raise _unreadable(builder.data_dir, error) from error
    return images.numpy(), labels.numpy().astype(np.int32)


def _download(builder: tfds.core.DatasetBuilder) -> None:
    name, root = builder.name, builder.data_dir_root
    url = next(iter(builder.url_infos))
    # Asked first, since tensorflow-datasets retries for minutes where there is no network.
    if not _answers(url):
        raise UserError(
            f"{name} is not prepared in {builder.data_dir}, and {url} does not answer within "
            f"{PROBE_SECONDS:g} s: run once where there is a network, copy a prepared {name} directory "
            f"from another machine into {root}, or name the directory that holds one by "
            f"--config.data.data_dir=DIR or by the environment variable TFDS_DATA_DIR"
        )
    size = tfds.core.units.Size(sum(info.size for info in builder.url_infos.values()))
    print(f"downloading {name}, {size}, from {url} into {root}", flush=True)
    try:
        builder.download_and_prepare()
    except Exception as error:  # sockets, archives, checksums and disks each raise their own
        raise UserError(
            f"{name} could not be downloaded into {root} ({_one_line(error)}): check the network, "
            f"the free space and the right to write there, then run again"
        ) from error


def _answers(url: str) -> bool:
    answered = threading.Event()

    def ask() -> None:
        try:
            with requests.get(url, stream=True, timeout=PROBE_SECONDS) as response:
                if response.ok:
                    answered.set()
        except requests.RequestException:
            pass  # any failure is no answer

    # In a thread, since the timeout of requests does not bound the look-up of the host's name.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return answered.is_set()


def _unreadable(path: str, reason: Exception | str) -> UserError:
    return UserError(
        f"the data set in {path} cannot be read ({_one_line(reason)}): put a whole copy in its "
        f"place, or delete it and run again where there is a network"
    )


def _one_line(reason: Exception | str) -> str:
    """The reason without the names of TensorFlow's nodes and ops."""
    return " ".join(re.sub(r"\{\{.*?\}\}|\[Op:.*", "", str(reason), flags=re.DOTALL).split())

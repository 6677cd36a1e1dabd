"""A data set, cut into training, evaluation and test examples. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import tensorflow_datasets as tfds
from ml_collections import ConfigDict

from posvit_tf.errors import UserError
from posvit_tf.text import counted

if TYPE_CHECKING:
    from posvit_tf.data.pictures import Pictures

SAMPLE = 4096  # pictures that tell the moments of a set not kept in memory
Pieces = list[tuple[str, range]]  # ranges of the splits on disk: train[:96%] is train, 0 to 48000


@dataclass(frozen=True)
class Split:
    """Labelled images.

    Attributes:
        images: (n, H, W, C) uint8; of many files, `Pictures`, which are read when asked for.
        labels: (n,) int32.
        files: (n,) paths, where each image is a file of its own.
    """

    images: np.ndarray | Pictures
    labels: np.ndarray
    files: np.ndarray | None = None


@dataclass(frozen=True)
class Source:
    """A data set and what a model needs to know of it.

    Attributes:
        name: as in `config.data.name`.
        train, eval, test: disjoint; eval is None where `eval_split` is "".
        class_names: label -> name.
        mean, std: of each channel of the training images (of files not kept in memory, of at most
            SAMPLE, at equal steps), in units of 0..255.
    """

    name: str
    train: Split
    eval: Split | None
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def facts(self) -> dict:
        """What a model of this data is built from; a checkpoint keeps it, as JSON."""
        return {
            "image_shape": self.train.images.shape[1:],
            "class_names": self.class_names,
            "mean": self.mean,
            "std": self.std,
        }

    def normalised_as(self, facts: Mapping) -> Source:
        """The same with the mean and std that other weights were trained with, from their facts."""
        return replace(self, mean=tuple(facts["mean"]), std=tuple(facts["std"]))


def cut(
    data: ConfigDict,
    infos: Mapping[str, tfds.core.SplitInfo],
    class_names: tuple[str, ...],
    read: Callable[[str], tuple[np.ndarray, np.ndarray]],
    opened: Callable[..., list[tuple[np.ndarray | Pictures, np.ndarray]]] | None = None,
) -> Source:
    """The examples that the split strings of `data` name.

    Split strings are those of tensorflow-datasets: "train", "train[:96%]", "test[100:200]".

    Args:
        data: `config.data`: name, train_split, eval_split and test_split.
        infos: of the splits that there are, by name.
        class_names: label -> name.
        read: a split's name -> all its images (n, H, W, C) uint8 and labels (n,) int32.
        opened: where `read` gives other things than images, makes images of those of each part, and
            names their files.

    Raises:
        UserError: a split does not exist, is empty or overlaps another, or a label lies outside the
            classes.
    """
    specs = {"train": data.train_split, "eval": data.eval_split, "test": data.test_split}
    if not data.eval_split:
        del specs["eval"]
    pieces = {role: _pieces(f"data.{role}_split", spec, infos) for role, spec in specs.items()}
    for one, other in combinations(specs, 2):
        if _overlap(pieces[one], pieces[other]):
            raise UserError(
                f"data.{one}_split={specs[one]!r} and data.{other}_split={specs[other]!r} share "
                f"examples of {data.name}: use splits that do not overlap"
            )

    names = {name for parts in pieces.values() for name, _ in parts}
    wholes = {name: read(name) for name in names}
    splits = {role: _cut(parts, wholes) for role, parts in pieces.items()}
    for role, split in splits.items():
        outside = np.flatnonzero((split.labels < 0) | (split.labels >= len(class_names)))
        if outside.size:
            raise UserError(
                f"label {split.labels[outside[0]]} at index {outside[0]} of {data.name} "
                f"{specs[role]!r} is outside its {counted(len(class_names), 'class')} "
                f"(0 to {len(class_names) - 1}): correct the labels or the list of class names"
            )
    if opened:
        pictures = opened(*(split.images for split in splits.values()))
        splits = {
            role: Split(images, split.labels, files)
            for (role, split), (images, files) in zip(splits.items(), pictures, strict=True)
        }
    return source_of(data.name, splits, class_names)


def source_of(name: str, splits: Mapping[str, Split], class_names: tuple[str, ...]) -> Source:
    """A `Source` of its splits train, test and, where there is one, eval."""
    sample = splits["train"].images
    if not isinstance(sample, np.ndarray):
        sample = sample[:: -(-len(sample) // SAMPLE)]
    mean, std = _moments(sample)
    return Source(name, splits["train"], splits.get("eval"), splits["test"], class_names, mean, std)


def infos(wholes: Mapping[str, tuple]) -> dict[str, tfds.core.SplitInfo]:
    """name -> what tensorflow-datasets says of a split, for name -> (images or files, labels)."""
    return {name: tfds.core.SplitInfo(name, [len(w[1])], 0) for name, w in wholes.items()}


def _pieces(field: str, spec: str, infos: Mapping[str, tfds.core.SplitInfo]) -> Pieces:
    try:
        instructions = tfds.core.ReadInstruction.from_spec(spec).to_absolute(infos)
    except (ValueError, NotImplementedError) as error:
        known = ", ".join(
            f"{name} ({counted(info.num_examples, 'example')})" for name, info in infos.items()
        )
        raise UserError(
            f"{field}={spec!r} is not a split: use {known}, or a part such as 'train[:96%]'"
        ) from error
    pieces = [
        (part.splitname, range(infos[part.splitname].num_examples)[part.from_ : part.to])
        for part in instructions
    ]
    if not any(examples for _, examples in pieces):
        raise UserError(f"{field}={spec!r} holds no examples: widen it")
    return pieces


def _overlap(a: Pieces, b: Pieces) -> bool:
    return any(
        split == other and max(rows.start, others.start) < min(rows.stop, others.stop)
        for split, rows in a
        for other, others in b
    )


def _cut(pieces: Pieces, wholes: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Split:
    cuts = [[array[rows.start : rows.stop] for array in wholes[name]] for name, rows in pieces]
    if len(cuts) == 1:  # a view: concatenate would copy the training set
        return Split(*cuts[0])
    return Split(*map(np.concatenate, zip(*cuts, strict=True)))


def _moments(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """mean_c = E[x_c], std_c = sqrt(E[x_c^2] - mean_c^2): sums, so no float copy of the images."""
    n, channels = len(images), images.shape[-1]
    flat = images.reshape(n, -1)  # (n,H*W*C)
    mean = flat.mean(axis=0, dtype=np.float64).reshape(-1, channels).mean(axis=0)
    square = np.einsum("nd,nd->d", flat, flat, dtype=np.float64) / n
    square = square.reshape(-1, channels).mean(axis=0)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))  # rounding may leave -1e-12 for a flat channel
    return tuple(mean.tolist()), tuple(std.tolist())

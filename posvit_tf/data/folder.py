"""A folder of pictures, a folder a class: its classes, its whole pictures and its splits."""

import hashlib
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.data.pictures import Pictures, size
from posvit_tf.data.scan import Verdict, scan
from posvit_tf.data.splits import Source, cut, infos
from posvit_tf.errors import UserError
from posvit_tf.text import counted

SPLITS = {"train": "train", "val": "val", "validation": "val", "eval": "val", "test": "test"}
HELD_OUT = 0.1  # share of each class that makes val, and test, where they are not given
LARGEST = 192  # pixels of the longer side, unless data.image_size says otherwise
JUNK = ("thumbs.db", "desktop.ini", "__macosx")  # and whatever starts with a dot
IN_MEMORY = 2**30  # bytes: fitted pictures up to this size are decoded once and kept


@dataclass(frozen=True)
class Folder:
    """The whole pictures of a folder.

    Attributes:
        paths: (n,) files.
        digests: (n,) SHA-256 of each.
        class_names: label -> name.
        splits: name (train, val, test) -> numbers of the files (m,) int64, and their labels (m,) int32.
            Any run of a split holds every class in its share.
        height, width: to which they are fitted, in pixels.
    """

    paths: np.ndarray
    digests: np.ndarray
    class_names: tuple[str, ...]
    splits: dict[str, tuple[np.ndarray, np.ndarray]]
    height: int
    width: int

    def open(self, *chosen: np.ndarray) -> list[tuple[np.ndarray | Pictures, np.ndarray]]:
        """The pictures of some numbers, in memory if all take at most IN_MEMORY bytes; their paths."""
        opened = [Pictures(self.paths[c], self.digests[c], self.height, self.width) for c in chosen]
        needed = sum(map(len, opened)) * self.height * self.width * 3
        kept = needed <= IN_MEMORY
        print(
            f"pictures: fitted to {self.height}x{self.width}, "
            + ("kept in memory" if kept else "decoded anew each time")
            + f" ({needed / 1e6:,.0f} MB)",
            flush=True,
        )
        return [(pictures[:] if kept else pictures, pictures.paths) for pictures in opened]


def load(data: ConfigDict) -> Source:
    """The splits of `config.data` of the folder that `find` reads."""
    found = find(data)
    return cut(data, infos(found.splits), found.class_names, found.splits.__getitem__, found.open)


def find(data: ConfigDict) -> Folder:
    """Reads a folder of class folders, with train, val and test given or cut.

    Classes are in natural order: 1, 2, 10. Everything below a class folder belongs to it; hidden files
    and JUNK do not count, any other file has to be a picture. PICTURES/train (with val, validation or
    eval, and test) hold the class folders where there are such; what is missing of val and test is cut
    from the rest, HELD_OUT of each class and one picture at least, by a hash of each file's path below
    PICTURES: the same in every process and for every seed.

    Args:
        data: `config.data`: data_dir, the folder; on_bad_file, stop or skip; image_size, "SIDE" or
            "HEIGHT,WIDTH" in pixels, or None for the median picture, scaled down to LARGEST.

    Raises:
        UserError: no such folder, classes or splits that are not clear, a class without enough
            pictures, or, where on_bad_file=stop, a file that is no whole picture.
    """
    if not data.data_dir:
        raise UserError(
            "no pictures: name the folder that holds a folder for each class by "
            "--config.data.data_dir=PICTURES"
        )
    root = Path(data.data_dir).expanduser()
    if not root.is_dir():
        what = "is no folder" if root.exists() else "does not exist"
        raise UserError(
            f"data.data_dir={root} {what}: name the folder that holds a folder for each class"
        )
    places = _places(root)
    _warn_of_strays({root, *(folder.parent for folder in places.values())})
    class_names = tuple(sorted({name for _, name in places}, key=_natural))
    if len(class_names) < 2:
        raise UserError(
            f"{root} holds {counted(len(class_names), 'class folder')} ({', '.join(class_names) or 'none'}): "
            "put the pictures of each class into a folder of its own, two classes at least"
        )
    odd = [
        name for name in class_names if name.encode(errors="ignore").decode().splitlines() != [name]
    ]
    if odd:
        raise UserError(
            f"the name of the class folder {odd[0]!r} in {root} is not one line of text, and files of class "
            "names are: rename it"
        )
    entries = [
        (file, class_names.index(name), split)
        for (split, name), folder in places.items()
        for file in _files(root, folder, ())
    ]
    entries, verdicts = _whole(root, entries, data.on_bad_file)
    files = [file for file, _, _ in entries]
    labels = np.array([label for _, label, _ in entries], np.int32)
    given = {split for split, _ in places}
    splits = _cut(files, labels, np.array([split for _, _, split in entries]), given, class_names)
    height, width = image_size(data.image_size, [v.shape for v in verdicts])
    digests = np.array([v.sha256 for v in verdicts])
    _warn_of_copies(files, digests, splits)
    return Folder(
        paths=np.array([str(root / file) for file in files], object),
        digests=digests,
        class_names=class_names,
        splits={name: (numbers, labels[numbers]) for name, numbers in splits.items()},
        height=height,
        width=width,
    )


def image_size(wanted: str | None, shapes: list[tuple[int, int]]) -> tuple[int, int]:
    """Height and width for a model: as wanted, or the median's, at most LARGEST, in whole patches.

    The patch that divides an unset size is the least power of two that leaves 12 patches a side.
    """
    if wanted is not None:
        return size(wanted)
    median = np.median(shapes, axis=0)
    sides = median * min(1.0, LARGEST / median.max())
    patch = 2
    while sides.max() // patch > 12:
        patch *= 2
    height, width = np.maximum(sides // patch, 1).astype(int) * patch
    return int(height), int(width)


def _visible(folder: Path) -> list[os.DirEntry]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be read ({error.strerror}): give yourself the right to"
        ) from None
    return [e for e in entries if not e.name.startswith(".") and e.name.lower() not in JUNK]


def _folders(folder: Path) -> list[str]:
    # Not entry.is_dir(), which fails at a link to itself.
    return [entry.name for entry in _visible(folder) if os.path.isdir(entry)]


def _places(root: Path) -> dict[tuple[str, str], Path]:
    """(split, class name) -> folder; the split is "" where none is given."""
    names = _folders(root)
    given = [name for name in names if name.lower() in SPLITS and _folders(root / name)]
    if not given:
        return {("", name): root / name for name in names}
    others = [name for name in names if name not in given]
    splits = Counter(SPLITS[name.lower()] for name in given)
    if others or "train" not in splits or max(splits.values()) > 1:
        raise UserError(
            f"{root} holds {', '.join(names)}: keep class folders alone, or train, with val and test if "
            "you have them, and the class folders in each"
        )
    places = {
        (SPLITS[name.lower()], inner): root / name / inner
        for name in given
        for inner in _folders(root / name)
    }
    for split, name in places:
        if ("train", name) not in places:
            raise UserError(
                f"class {name!r} is in {split} of {root}, but not in train: add it or remove it"
            )
    return places


def _files(root: Path, folder: Path, above: tuple[str, ...]) -> list[str]:
    """All files below, as paths below root; a link to a folder above it is not followed."""
    above += (os.path.realpath(folder),)
    found = []
    for entry in _visible(folder):
        path = folder / entry.name
        if os.path.isdir(path):
            if os.path.realpath(path) not in above:
                found += _files(root, path, above)
        # A link into nothing is told; a socket is passed over, a pipe would be waited for.
        elif os.path.isfile(path) or not os.path.exists(path):
            found.append(str(path.relative_to(root)))
    return found


def _warn_of_strays(folders: set[Path]) -> None:
    strays = sorted(
        folder / entry.name
        for folder in folders
        for entry in _visible(folder)
        if not os.path.isdir(entry)
    )
    if strays:
        print(
            f"warning: files in no class folder are not used: {len(strays)}, the first {strays[0]}",
            file=sys.stderr,
        )


def _natural(name: str) -> list:
    """1 before 2 before 10, small and capital letters alike."""
    parts = re.split(r"(\d+)", name)
    return [[int(p) if i % 2 else p.casefold() for i, p in enumerate(parts)], name]


def _whole(
    root: Path, entries: list[tuple[str, int, str]], on_bad_file: str
) -> tuple[list[tuple[str, int, str]], list[Verdict]]:
    """The entries that are whole pictures, and what is known of each; the others are told."""
    judged = list(zip(entries, scan(root, [file for file, _, _ in entries]), strict=True))
    bad = [(root / entry[0], verdict.reason) for entry, verdict in judged if verdict.reason]
    for path, reason in bad:
        print(f"pictures: {path}: {reason}", file=sys.stderr)  # takes names that are no text, too
    if bad and on_bad_file == "stop":
        raise UserError(
            f"{len(bad)} of {len(judged)} files in {root} cannot be read, the first {bad[0][0]} "
            f"({bad[0][1]}): mend or remove them, or leave them out by --config.data.on_bad_file=skip"
        )
    if bad:
        print(f"pictures: {len(bad)} of {len(judged)} files left out", flush=True)
    good = [(entry, verdict) for entry, verdict in judged if not verdict.reason]
    return [entry for entry, _ in good], [verdict for _, verdict in good]


def _cut(
    files: list[str],
    labels: np.ndarray,
    given: np.ndarray,
    names: set[str],
    class_names: tuple[str, ...],
) -> dict[str, np.ndarray]:
    """Split -> numbers of its files; each class is spread evenly over each split."""
    missing = [name for name in ("test", "val") if name not in names]
    order = np.argsort([hashlib.sha256(os.fsencode(file)).hexdigest() for file in files])
    parts = {name: [] for name in ("train", "val", "test")}
    for label, class_name in enumerate(class_names):
        numbers = order[labels[order] == label]
        for name in names - {"train", ""}:
            parts[name].append(numbers[given[numbers] == name])
        numbers = numbers[(given[numbers] == "train") | (given[numbers] == "")]
        if len(numbers) <= len(missing):
            raise UserError(
                f"class {class_name!r} holds {counted(len(numbers), 'whole picture')}, too few for train"
                + "".join(f" and {name}" for name in missing)
                + f": add pictures ({len(missing) + 1} at least) or remove its folder"
            )
        held_out = max(1, round(HELD_OUT * len(numbers)))
        for name in missing:
            parts[name].append(numbers[:held_out])
            numbers = numbers[held_out:]
        parts["train"].append(numbers)

    def spread(of_class: list[np.ndarray]) -> np.ndarray:
        places = [
            (np.arange(len(numbers)) + 0.5) / len(numbers) for numbers in of_class if len(numbers)
        ]
        return np.concatenate(of_class)[np.argsort(np.concatenate(places), kind="stable")]

    return {name: spread(of_class) for name, of_class in parts.items() if any(map(len, of_class))}


def _warn_of_copies(files: list[str], digests: np.ndarray, splits: dict[str, np.ndarray]) -> None:
    train = {digests[number]: number for number in splits["train"]}
    for name in splits.keys() - {"train"}:
        copies = [number for number in splits[name] if digests[number] in train]
        if copies:
            print(
                f"warning: train holds {len(copies)} of the {counted(len(splits[name]), 'picture')} of "
                f"{name}, too, byte by byte ({files[copies[0]]} is {files[train[digests[copies[0]]]]}): the "
                f"figures of {name} flatter",
                file=sys.stderr,
            )

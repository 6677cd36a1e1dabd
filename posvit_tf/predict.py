"""Names what pictures show, by an export alone: its five likeliest classes for each.

    posvit predict EXPORT IMAGE...          files, or folders with all that lies in them
    posvit predict EXPORT IMAGE... --json   [{"file", "top": [{"class", "probability"}]}]

EXPORT is a folder of `posvit export`. Pictures are decoded and fitted as in training on a
folder, turned as their EXIF orientation says. A file that cannot be read is named, the others are
predicted, and the exit code is 2. `python -m posvit_tf.predict` is the same.
"""

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from posvit_tf.errors import UserError

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp"}  # looked for in folders
TOP = 5
BATCH = 32


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; gives the exit code, 2 where a file could not be read."""
    parser = argparse.ArgumentParser(
        prog="posvit predict",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("export", type=Path, metavar="EXPORT")
    parser.add_argument("pictures", type=Path, nargs="+", metavar="IMAGE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text

    rows = []
    for row in predict(given.export, list(find(given.pictures))):
        rows.append(row)
        if "error" in row:
            print(f"error: {row['error']}", file=sys.stderr)
        elif not given.json:
            print(row["file"])
            for guess in row["top"]:
                print(f"  {guess['probability']:.4f}  {guess['class']}", flush=True)
    if given.json:
        print(json.dumps(rows, indent=2))
    return 2 if any("error" in row for row in rows) else 0


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """The files as they are, and of each folder all with a picture's suffix, sorted.

    Hidden ones do not count, and links to folders are not followed.

    Raises:
        UserError: a folder holds none.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(
            p for p in path.rglob("[!.]*") if p.suffix.lower() in SUFFIXES and not p.is_dir()
        )
        if not inside:
            raise UserError(
                f"{path} holds no picture ({', '.join(sorted(SUFFIXES))}): name another folder, or files"
            )
        yield from inside


def predict(export: Path, files: list[Path]) -> Iterator[dict]:
    """For each file {"file", "top": [{"class", "probability"}, ...]}, or {"file", "error"}.

    Args:
        export: a folder of `posvit_tf.export`.
        files: pictures.

    Raises:
        UserError: the folder is no export.
    """
    # TensorFlow takes seconds to import: only now, so that bad paths show at once.
    import numpy as np
    import tensorflow as tf

    from posvit_tf.data import pictures

    saved_model = export / "saved_model"
    if not (saved_model / "saved_model.pb").exists():
        raise UserError(
            f"{export} is no export: name the folder that `posvit export WORKDIR` wrote, "
            "WORKDIR/export"
        )
    try:
        signatures = tf.saved_model.load(str(saved_model)).signatures
        classify = signatures["serving_default"]
        shape = classify.structured_input_signature[1]["images"].shape[1:]
        class_names = [n.decode() for n in signatures["class_names"]()["class_names"].numpy()]
    except Exception as error:  # TensorFlow's loader raises what its broken part raises
        raise UserError(
            f"{saved_model} is damaged or no model of posvit_tf.export: export the run again"
        ) from error

    for start in range(0, len(files), BATCH):
        images, rows = [], []
        for file in files[start : start + BATCH]:
            rows.append({"file": str(file)})
            try:
                images.append(pictures.fit_channels(pictures.decode(file), shape))  # (H,W,C)
            except UserError as error:
                rows[-1]["error"] = str(error)
        good = [row for row in rows if "error" not in row]
        if good:
            found = classify(images=tf.stack(images))["probabilities"].numpy()  # (N,K)
            for row, probabilities in zip(good, found, strict=True):
                row["top"] = [
                    {"class": class_names[k], "probability": float(probabilities[k])}
                    for k in np.argsort(-probabilities, kind="stable")[:TOP]
                ]
        yield from rows


if __name__ == "__main__":
    from posvit_tf.cli import main

    sys.exit(main(["posvit", "predict", *sys.argv[1:]]))

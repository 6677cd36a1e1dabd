"""Writes WORKDIR/export, checks every file in a fresh process, and describes it in export/README.md.

    posvit export WORKDIR
    posvit export WORKDIR --formats=saved_model,keras,onnx,litert

The SavedModel is always written; the others are made from it (ONNX and LiteRT need the extras [onnx] and
[litert]). An export that is there already is replaced, once all of the new one has been checked.
`python -m posvit_tf.export` is the same.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def run(arguments: Sequence[str]) -> None:
    """Runs a command line."""
    parser = argparse.ArgumentParser(
        prog="posvit export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workdir", type=Path, help="of a finished run")
    parser.add_argument("--formats", default="saved_model", help="names, with commas between them")
    given = parser.parse_args(arguments)
    os.environ["KERAS_BACKEND"] = "tensorflow"  # of the fresh processes, too
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # TensorFlow takes seconds to import: only now, so that bad flags show at once.
    from posvit_tf.export import write

    write.export(given.workdir.expanduser(), given.formats.split(","))


if __name__ == "__main__":
    from posvit_tf.cli import main

    sys.exit(main(["posvit", "export", *sys.argv[1:]]))

"""Writes WORKDIR/export, checks every file in a fresh process, and describes it in export/README.md.

    python -m posvit_tf.export WORKDIR
    python -m posvit_tf.export WORKDIR --formats=saved_model,keras,onnx,litert

The SavedModel is always written; the others are made from it (ONNX and LiteRT need the extras [onnx] and
[litert]). An export that is there already is replaced, once all of the new one has been checked.
"""

import argparse
import os
import sys
from pathlib import Path

from posvit_tf.errors import exit_code


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line, sys.argv's by default; gives the exit code, 2 for bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m posvit_tf.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workdir", type=Path, help="of a finished run")
    parser.add_argument("--formats", default="saved_model", help="names, with commas between them")
    flags = parser.parse_args(arguments)
    os.environ["KERAS_BACKEND"] = "tensorflow"  # of the fresh processes, too
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def command() -> int:
        # TensorFlow takes seconds to import: only now, so that bad flags show at once.
        from posvit_tf.export import write

        write.export(flags.workdir.expanduser(), flags.formats.split(","))
        return 0

    return exit_code(command)


if __name__ == "__main__":
    sys.exit(main())

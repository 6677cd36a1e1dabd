"""What a run learned, as one HTML page.

    posvit report WORKDIR                        WORKDIR/report.html; of a sweep, its runs
    posvit report A B C [--out=compare.html]     several runs side by side

A classification run is evaluated again with the weights that it reports, so its data must be there;
several are compared by what they left. The page needs no other file and no network.
`python -m posvit_tf.report` is the same.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from posvit_tf import task
from posvit_tf.training import run_files


def write(workdirs: Sequence[Path], out: Path) -> Path:
    """Writes the page of one workdir into it, or that of several to `out`; returns its path.

    Raises:
        UserError: a workdir holds no finished run, or what its page needs is missing.
    """
    if len(workdirs) > 1:
        from posvit_tf.pages import compare

        return compare.write(out, workdirs)
    (workdir,) = workdirs
    return task.find(run_files.read_result(workdir)["task"]).page(workdir)


def run(arguments: Sequence[str]) -> None:
    """Runs a command line."""
    parser = argparse.ArgumentParser(
        "posvit report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "workdirs", nargs="+", type=Path, metavar="WORKDIR", help="of finished runs"
    )
    parser.add_argument("--out", type=Path, help="page of several, compare.html as it stands")
    given = parser.parse_args(arguments)
    if given.out and len(given.workdirs) == 1:
        parser.error("--out is for several workdirs: the page of one goes into it")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    print(write([w.expanduser() for w in given.workdirs], given.out or Path("compare.html")))


if __name__ == "__main__":
    from posvit_tf.cli import main

    sys.exit(main(["posvit", "report", *sys.argv[1:]]))

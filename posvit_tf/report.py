"""What a run learned, as one HTML page: `python -m posvit_tf.report WORKDIR`.

    python -m posvit_tf.report WORKDIR                        WORKDIR/report.html; of a sweep, its runs
    python -m posvit_tf.report A B C [--out=compare.html]     several runs side by side

A classification run is evaluated again with the weights that it reports, so its data must be there;
several are compared by what they left. The page needs no other file and no network.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from posvit_tf.errors import UserError, exit_code


def write(workdirs: Sequence[Path], out: Path) -> Path:
    """Writes the page of one workdir into it, or that of several to `out`; returns its path.

    Raises:
        UserError: a workdir holds no finished run, or what its page needs is missing.
    """
    from posvit_tf.pages import compare, html, plain
    from posvit_tf.training import run_files

    if len(workdirs) > 1:
        return compare.write(out, workdirs)
    (workdir,) = workdirs
    match run_files.read_result(workdir)["task"]:
        case "classify":
            return classification(workdir)
        case "sweep":
            runs = sorted(file.parent for file in workdir.glob("runs/*/*/result.json"))
            if not runs:
                raise UserError(f"{workdir}/runs holds no finished run: bring the folder back")
            return compare.write(workdir / html.NAME, runs)
        case _:
            return plain.write(workdir)


def classification(workdir: Path) -> Path:
    """Evaluates a run's model on its test split again and writes its page.

    Raises:
        UserError: its data cannot be had, or has changed.
    """
    # Not above: a wrong name is told before TensorFlow, which takes seconds to import.
    import tensorflow as tf

    from posvit_tf.data import pictures
    from posvit_tf.pages import run
    from posvit_tf.tasks import classify
    from posvit_tf.training.replicas import Replicas

    with pictures.noticed():
        (model, class_names, config), source = classify.load_with_data(workdir)
        logits = Replicas(config, tf.distribute.get_strategy(), model).logits(source.test)
        return run.write(workdir, model, source.test, logits, class_names)


def main(argv: Sequence[str]) -> int:
    """Runs a command line; what goes wrong becomes one line on stderr.

    Returns:
        The exit code: 0 done, 2 bad input, 130 Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        "python -m posvit_tf.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "workdirs", nargs="+", type=Path, metavar="WORKDIR", help="of finished runs"
    )
    parser.add_argument("--out", type=Path, help="page of several, compare.html as it stands")
    given = parser.parse_args(argv)
    if given.out and len(given.workdirs) == 1:
        parser.error("--out is for several workdirs: the page of one goes into it")

    def command() -> int:
        print(write([w.expanduser() for w in given.workdirs], given.out or Path("compare.html")))
        return 0

    return exit_code(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

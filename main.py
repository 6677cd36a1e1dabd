"""Runs a config: `python main.py --config=digits`. Without flags it lists the configs."""

import contextlib
import itertools
import os
import sys
import time
from pathlib import Path

from absl import flags

from posvit_tf.config import load, split_overrides, summaries
from posvit_tf.errors import UserError
from posvit_tf.training import cluster, run_files

USAGE = """\
python main.py --config=NAME[:ARGUMENT=VALUE,...] [--config.FIELD=VALUE ...] [--workdir=DIR]
               [--debug]
python main.py --config=NAME --help      the fields of a config

Configs (each file in configs/ says what it shows, its arguments, its cost and what to expect):"""

FLAGS = flags.FlagValues()
flags.DEFINE_string("config", "", "a config's name and arguments", flag_values=FLAGS)
flags.DEFINE_string("workdir", "", "where the run goes or continues", flag_values=FLAGS)
flags.DEFINE_bool("debug", False, "show stack traces", flag_values=FLAGS)
flags.DEFINE_bool(
    "help", False, "list the configs, or the fields of one", flag_values=FLAGS, short_name="h"
)


def main(argv: list[str]) -> int:
    """Runs a command line; what goes wrong becomes one line on stderr.

    Args:
        argv: the script's name, then its flags, as in sys.argv.

    Returns:
        The exit code: 0 done, 1 unexpected error, 2 bad input, 130 interrupted. SystemExit
        goes through: 130 and 143 of a run that was saved.
    """
    # command.txt and the hint after Ctrl-C show it, also where a notebook calls this.
    sys.argv = argv
    try:
        run(argv)
        return 0
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    except Exception as error:
        if FLAGS["debug"].value:
            raise
        code, message = 2, " ".join(str(error).split())
        if isinstance(error, ModuleNotFoundError) and error.name == "tensorflow":
            message = f"TensorFlow is not installed here: {cluster.INSTALL}"
        elif not isinstance(error, UserError):
            code, hint = 1, "run again with --debug for the stack trace"
            message = f"{type(error).__name__}: {message}; {hint}"
    print(f"error: {message}", file=sys.stderr)
    return code


def run(argv: list[str]) -> None:
    """Reads the flags, then trains, resumes or shows the run of a workdir."""
    overrides, argv = split_overrides(argv)
    FLAGS.unparse_flags()
    try:
        words = FLAGS(argv)[1:]
    except flags.Error as error:
        raise UserError(f"{error}; `python main.py` shows the flags") from None
    if words:
        raise UserError(f"unexpected word {words[0]!r}; write flags as --flag=value")
    if FLAGS.help and FLAGS.config:
        fields = run_files.flat(run_files.plain(load(FLAGS.config, overrides)))
        print(f"Fields of {FLAGS.config} and their values; None derives at use:")
        print(*(f"  --config.{field}={value}" for field, value in fields.items()), sep="\n")
        return
    if FLAGS.help or len(argv) == 1 and not overrides:
        print(USAGE, *(f"  {name:12}{text}" for name, text in summaries().items()), sep="\n")
        return
    if not FLAGS.config:
        raise UserError("--config is missing; `python main.py` lists the configs")
    config = load(FLAGS.config, overrides)
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        raise UserError(f"KERAS_BACKEND={backend} cannot train here; unset it or set tensorflow")
    os.environ["KERAS_BACKEND"] = backend  # wins over ~/.keras/keras.json
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    place = cluster.place(config)
    if place.count > 1 and not FLAGS.workdir:
        raise UserError(
            f"--workdir is missing: {place.count} processes need one folder that all of them see"
        )
    workdir = Path(FLAGS.workdir).expanduser() if FLAGS.workdir else new_workdir(FLAGS.config)
    print(f"workdir: {workdir}", flush=True)
    result = run_files.finished(workdir, config)
    # TensorFlow takes seconds to import: only now, so that bad flags show at once.
    match config.task:
        case "classify":
            from posvit_tf.tasks import classify as task
        case "associate":
            from posvit_tf.tasks import associate as task
        case "transfer":
            from posvit_tf.tasks import transfer as task
        case "gaussian":
            from posvit_tf.tasks import gaussian as task
        case "claims":
            from posvit_tf.tasks import claims as task
        case "sweep":
            from posvit_tf.tasks import sweep as task
    if result is not None:
        print("this run is finished already; it found:")
    else:
        with run_files.claimed(workdir, config) if place.chief else contextlib.nullcontext():
            result = task.run(config, workdir)
    if place.chief:
        task.tell(result, workdir)
        print(f"workdir: {workdir}")


def new_workdir(config: str) -> Path:
    """Creates runs/<config>/<date-time>; a second run in the same second gets a number."""
    stem = Path("runs", config.partition(":")[0], time.strftime("%Y%m%d-%H%M%S"))
    for number in itertools.count(1):
        workdir = stem if number == 1 else stem.with_name(f"{stem.name}-{number}")
        try:
            workdir.mkdir(parents=True)
            return workdir
        except OSError as error:
            if not workdir.is_dir():
                raise UserError(
                    f"cannot make {workdir} ({error.strerror}): choose a folder by --workdir=DIR"
                ) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The command line: `posvit --config=NAME`, and `posvit COMMAND ...` for what is done with runs.

What goes wrong becomes one line on stderr, here alone. Imports no TensorFlow before a run needs it.
"""

import contextlib
import importlib
import itertools
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from absl import flags

import posvit_tf
from posvit_tf import task
from posvit_tf.config import docstring, file_of, load, split_overrides, summaries
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.training import cluster, run_files

# The module of each, whose run(arguments) gives the exit code; its docstring's first line says what it does.
COMMANDS = {
    "report": "posvit_tf.report",
    "export": "posvit_tf.export.__main__",
    "predict": "posvit_tf.predict",
    "benchmark": "posvit_tf.benchmarks.__main__",
    "doctor": "posvit_tf.doctor",
}

USAGE = """\
posvit --config=NAME[:ARGUMENT=VALUE,...] [--config.FIELD=VALUE ...] [--workdir=DIR] [--debug]
posvit --config=NAME --help      what a config does, its arguments and fields
posvit COMMAND --help            {commands}
posvit --version

NAME is one of these, or the path of a config file of your own:"""

INSTALL = {"tensorflow": cluster.INSTALL, "jax": "`pip install jax`"}

FLAGS = flags.FlagValues()
flags.DEFINE_string("config", "", "a config's name and arguments", flag_values=FLAGS)
flags.DEFINE_string("workdir", "", "where the run goes or continues", flag_values=FLAGS)
flags.DEFINE_bool("debug", False, "show stack traces", flag_values=FLAGS)
flags.DEFINE_bool("version", False, "tell the version", flag_values=FLAGS)
flags.DEFINE_bool(
    "help", False, "list the configs, or the fields of one", flag_values=FLAGS, short_name="h"
)


def main(argv: list[str] | None = None) -> int:
    """Runs a command line; what goes wrong becomes one line on stderr.

    Args:
        argv: the program's name, then its words; sys.argv where it is None.

    Returns:
        The exit code: 0 done, 1 unexpected error, 2 bad input, 130 interrupted. SystemExit
        goes through: 130 and 143 of a run that was saved.
    """
    argv = sys.argv if argv is None else argv
    # command.txt and the hint after Ctrl-C show it, also where a notebook calls this.
    sys.argv = argv
    debug = "--debug" in argv
    word = argv[1] if len(argv) > 1 else ""
    if word in COMMANDS:
        words = [word for word in argv[2:] if word != "--debug"]
        return exit_code(lambda: importlib.import_module(COMMANDS[word]).run(words), debug)
    return exit_code(lambda: run(argv), debug)


def exit_code(command: Callable[[], int | None], debug: bool) -> int:
    """Runs a command; what it raises becomes one line on stderr, unless `debug` lets it through."""
    try:
        return command() or 0
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    except Exception as error:
        if debug:
            raise
        code, message = 2, " ".join(str(error).split())
        if isinstance(error, ModuleNotFoundError) and error.name in INSTALL:
            message = f"{error.name} is not installed here: {INSTALL[error.name]}"
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
        raise UserError(f"{error}; `posvit` shows the flags") from None
    if words:
        raise UserError(
            f"unexpected word {words[0]!r}; write flags as --flag=value, or a command first: "
            f"{', '.join(COMMANDS)}"
        )
    if FLAGS.version:
        print(f"posvit_tf {posvit_tf.__version__}")
    elif FLAGS.help and FLAGS.config:
        describe(FLAGS.config, overrides)
    elif FLAGS.help or len(argv) == 1 and not overrides:
        print(USAGE.format(commands=", ".join(COMMANDS)))
        print(*(f"  {name:12}{text}" for name, text in summaries().items()), sep="\n")
    elif not FLAGS.config:
        raise UserError("--config is missing; `posvit` lists the configs")
    else:
        run_config(FLAGS.config, overrides)


def describe(name: str, overrides: list[str]) -> None:
    """Prints what a config's file says of itself, and its fields."""
    config = load(name, overrides)
    declared = flat(task.find(config.task).declared(config)) if "task" in config else {}
    print(docstring(file_of(name)))
    print(f"\nFields of {name}, their values and what they do; None derives at use:")
    columns = shutil.get_terminal_size((120, 0)).columns
    for field, value in flat(run_files.plain(config)).items():
        text = f"  --config.{field}={value}"
        if field in declared:
            choices = [choice for choice in declared[field].choices if choice]
            doc = declared[field].doc + (f" ({' | '.join(choices)})" if choices else "")
            text = textwrap.fill(f"{text:48}  {doc}", columns, subsequent_indent=" " * 50)
        if field not in ("task", "name"):
            print(text)


def run_config(name: str, overrides: list[str]) -> None:
    """Runs a config in its workdir, from where that stands, and tells what came out."""
    config = load(name, overrides)
    if "task" not in config:
        raise UserError(f"{name} sets no task: choose one of {', '.join(task.TASKS)}")
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
    workdir = Path(FLAGS.workdir).expanduser() if FLAGS.workdir else new_workdir(name)
    print(f"workdir: {workdir}", flush=True)
    module = task.find(config.task)
    result = run_files.finished(workdir, config)
    if result is not None:
        print("this run is finished already; it found:")
    else:
        with run_files.claimed(workdir, config) if place.chief else contextlib.nullcontext():
            result = module.run(config, workdir)
    if place.chief:
        module.tell(result, workdir)
        print(f"workdir: {workdir}")


def new_workdir(name: str) -> Path:
    """Creates runs/<config>/<date-time>; a second run in the same second gets a number."""
    stem = Path("runs", file_of(name).stem, time.strftime("%Y%m%d-%H%M%S"))
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

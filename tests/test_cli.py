import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from posvit_tf import cli, config, task
from posvit_tf.analysis.seeds import over_seeds
from posvit_tf.errors import UserError
from posvit_tf.tasks import classify


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Stands in for run_files and task and notes what reaches them, as `finished` and `error` say."""
    calls = SimpleNamespace(finished=None, error=None, config=None, workdir=None, ran=False)

    def finished(workdir, config):
        calls.config, calls.workdir = config, workdir
        return calls.finished

    def run(config, workdir):
        calls.ran = True
        if calls.error:
            raise calls.error

    monkeypatch.setattr(cli.run_files, "finished", finished)
    monkeypatch.setattr(sys, "argv", sys.argv)  # main sets it
    monkeypatch.setattr(classify, "run", run)
    monkeypatch.setattr(classify, "tell", lambda result, workdir: print(result))
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.chdir(tmp_path)
    return calls


def test_no_flags_list_the_configs(capsys):
    assert cli.main(["main.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("  digits ")]


@pytest.mark.parametrize(
    "argv",
    [
        ["--config.train.epochs=3", "--config=digits", "--config.seed", "5"],
        ["--config", "digits", "--config.seed=5", "--config.train.epochs", "3"],
    ],
)
def test_overrides_in_any_flag_order(calls, argv):
    assert cli.main(["main.py", *argv]) == 0
    assert (calls.ran, calls.config.train.epochs, calls.config.seed) == (True, 3, 5)


def test_default_workdirs_are_unique_and_printed_first_and_last(calls, capsys, monkeypatch):
    monkeypatch.setattr(cli.time, "strftime", lambda format: "20260101-000000")
    for name in ("20260101-000000", "20260101-000000-2"):
        assert cli.main(["main.py", "--config=digits"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == lines[-1] == f"workdir: runs/digits/{name}"
        assert calls.workdir.is_dir()


def test_a_finished_run_prints_its_result_and_does_not_run(calls, capsys):
    calls.finished = {"task": "classify", "test": {"accuracy": 0.97}}
    assert cli.main(["main.py", "--config=digits", "--workdir=a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "0.97" in " ".join(lines) and lines[-1] == "workdir: a"
    assert not calls.ran


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("the batch is too large"), 2, "error: the batch is too large"),
        (
            KeyError("a\nb"),
            1,
            "error: KeyError: 'a\\nb'; run again with --debug for the stack trace",
        ),
        (KeyboardInterrupt(), 130, "error: interrupted"),
    ],
)
def test_what_goes_wrong_is_one_line(calls, capsys, error, code, line):
    calls.error = error
    assert cli.main(["main.py", "--config=digits"]) == code
    assert capsys.readouterr().err == line + "\n"


def test_debug_shows_the_stack_trace(calls):
    calls.error = ValueError("odd")
    with pytest.raises(ValueError, match="odd"):
        cli.main(["main.py", "--config=digits", "--debug"])


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["--config=digits", "--bogus"], "bogus"),
        (["--config=digits", "epochs"], "'epochs'"),
        (["--workdir=a"], "--config is missing"),
        (["--config=digits", "--config.train.epochs"], "train.epochs"),
    ],
)
def test_bad_flags_are_one_line(calls, capsys, argv, part):
    assert cli.main(["main.py", *argv]) == 2
    error = capsys.readouterr().err
    assert part in error and error.count("\n") == 1
    assert not calls.ran


def test_another_backend_is_refused_by_name(calls, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert cli.main(["main.py", "--config=digits"]) == 2
    assert "KERAS_BACKEND=jax" in capsys.readouterr().err


LIGHT = """
import sys
from posvit_tf import cli
for argv, code in {calls}:
    assert cli.main(["posvit", *argv]) == code, argv
heavy = {{"tensorflow", "keras", "numpy", "matplotlib"}} & sys.modules.keys()
assert not heavy, heavy
"""


def lightly(*calls):
    """Command lines in a process of its own, which end with some code and import nothing heavy."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format(calls=calls)], capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_lists_helps_and_mistakes_need_no_tensorflow():
    helps = [([f"--config={name}", "--help"], 0) for name in config.paths()]
    told = lightly(([], 0), (["--config=digits", "--config.sed=1"], 2), (["--version"], 0), *helps)
    assert "--config.model.attention=positional" in told


RESULTS = {
    "digits": {
        "task": "classify",
        "test": {"accuracy": 0.5, "loss": 1.0, "examples": 360, "balanced_accuracy": 0.5},
        "eval": None,
        **dict.fromkeys("seed steps epochs parameters seconds".split(), ()),
    },
    "spatial": {
        "task": "associate",
        **{f: over_seeds([0.5, 1.0]) for f in ("test_error", "cosine")},
        **{f: over_seeds([0.5]) for f in ("linear_error", "set_aware_error")},
        "association": {"exact": 1.0, "overlap": over_seeds([1.0, 1.0]), "chance": 0.1},
        "events": {t: over_seeds([None, 3]) for t in ("t1", "t2", "t3")},
    },
    "figure7:scale=laptop": {"task": "sweep", "cells": [], "differences": []},
    "claims": {"task": "claims", "claims": [{"holds": True}]},
}


def test_a_finished_run_is_told_without_tensorflow(tmp_path):
    calls = []
    for number, (name, result) in enumerate(RESULTS.items()):
        workdir = tmp_path / str(number)
        workdir.mkdir()
        plain = cli.run_files.plain(config.load(name))
        (workdir / "config.json").write_text(json.dumps(plain))
        result = {**result, "config": name, "captions": {}}
        (workdir / "result.json").write_text(json.dumps(result))
        calls.append(([f"--config={name}", f"--workdir={workdir}"], 0))
    told = lightly(*calls)
    assert told.count("this run is finished already") == len(RESULTS)


def test_every_task_is_a_task():
    for name, module in task.TASKS.items():
        assert task.find(name).__name__ == module
        for function in ("declared", "check", "run", "tell", "page"):
            assert callable(getattr(task.find(name), function))
        assert task.find(name).RESULT_FIELDS.split()


OWN = '''"""A config of one's own.

It says more.
"""

from posvit_tf.config import make, parse_arguments


def get_config(arg=""):
    args = parse_arguments(arg, deep=False)
    return make("classify", data=dict(name="digits"), model=dict(depth=9 if args.deep else 1))
'''


def test_a_config_file_of_ones_own_works_anywhere(calls, tmp_path, capsys):
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = folder / "my_config.py"
    path.write_text(OWN)
    assert cli.main(["posvit", f"--config={path}:deep", "--config.seed=3"]) == 0
    assert (calls.config.model.depth, calls.config.seed) == (9, 3)
    assert calls.workdir.parent == Path("runs/my_config")
    capsys.readouterr()
    assert cli.main(["posvit", f"--config={path}", "--help"]) == 0
    told = capsys.readouterr().out
    assert "It says more." in told and "--config.model.depth=1" in told


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ["is not there", "my_config.py"]),
        ("x = (", ["gives no config", "SyntaxError"]),
        ("1 / 0", ["gives no config", "ZeroDivisionError", "line 1"]),
        ("x = 1", ["gives no config", "get_config"]),
        ("def get_config(arg=''):\n    return {}", ["returned dict", "ConfigDict"]),
        (OWN.replace('"classify"', '"clasify"'), ["task 'clasify'", "did you mean classify"]),
        (OWN.replace("dict(depth", "dict(dept"), ["field 'model.dept'", "model.depth"]),
        (OWN.replace("9 if args.deep else 1", "1.5"), ["model.depth wants int", "1.5"]),
    ],
)
def test_a_config_file_that_gives_none_is_one_line(calls, tmp_path, capsys, text, parts):
    if text is not None:
        (tmp_path / "my_config.py").write_text(text)
    assert cli.main(["posvit", "--config=my_config.py"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and not [part for part in parts if part not in error], error
    assert not calls.ran


def test_a_command_that_is_none_names_those_that_are(capsys):
    assert cli.main(["posvit", "reprot", "a"]) == 2
    assert "report, export, predict" in capsys.readouterr().err
    assert cli.main(["posvit", "benchmark", "trainstep"]) == 2
    assert "did you mean train_step" in capsys.readouterr().err


def test_the_doctor_tells_what_is_here(capsys, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", "/nowhere")
    assert cli.main(["posvit", "doctor"]) == 0
    told = capsys.readouterr().out
    for part in ("posvit_tf:", f"tensorflow {tf.__version__}", "CPU", "in /nowhere: none"):
        assert part in told
    assert "no TPU is seen: strategy=tpu will stop" in told
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert cli.main(["posvit", "doctor"]) == 2
    assert "KERAS_BACKEND=jax" in capsys.readouterr().out


def test_a_flag_is_not_taken_for_a_missing_value(calls, capsys):
    assert cli.main(["main.py", "--config=digits", "--config.train.epochs", "--workdir=a"]) == 2
    assert "train.epochs" in capsys.readouterr().err and not calls.ran


def test_a_default_workdir_that_cannot_be_made_is_one_line(calls, capsys):
    open("runs", "w").close()
    assert cli.main(["main.py", "--config=digits"]) == 2
    assert "--workdir" in capsys.readouterr().err


def test_a_runtime_without_tensorflow_is_told_how_to_install_it(tmp_path):
    program = f"""
import sys
from posvit_tf import cli

class Missing:
    def find_spec(self, name, *_):
        if name == "tensorflow":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
sys.exit(cli.main(["main.py", "--config=digits", "--workdir={tmp_path}"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: tensorflow is not installed here: `pip install")


def test_several_processes_need_a_workdir_that_all_see(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}',
    )
    assert cli.main(["main.py", "--config=digits"]) == 2
    assert "error: --workdir is missing: 2 processes" in capsys.readouterr().err

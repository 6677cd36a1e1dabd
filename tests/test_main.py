import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import main
import posvit_tf.tasks
import posvit_tf.training
from posvit_tf.errors import UserError


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

    monkeypatch.setattr(main.run_files, "finished", finished)
    monkeypatch.setattr(sys, "argv", sys.argv)  # main sets it
    task = SimpleNamespace(run=run, tell=lambda result, workdir: print(result))
    monkeypatch.setitem(sys.modules, "posvit_tf.tasks.classify", task)
    monkeypatch.setattr(posvit_tf.tasks, "classify", task, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.chdir(tmp_path)
    return calls


def test_no_flags_list_the_configs(capsys):
    assert main.main(["main.py"]) == 0
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
    assert main.main(["main.py", *argv]) == 0
    assert (calls.ran, calls.config.train.epochs, calls.config.seed) == (True, 3, 5)


def test_default_workdirs_are_unique_and_printed_first_and_last(calls, capsys, monkeypatch):
    monkeypatch.setattr(main.time, "strftime", lambda format: "20260101-000000")
    for name in ("20260101-000000", "20260101-000000-2"):
        assert main.main(["main.py", "--config=digits"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == lines[-1] == f"workdir: runs/digits/{name}"
        assert calls.workdir.is_dir()


def test_a_finished_run_prints_its_result_and_does_not_run(calls, capsys):
    calls.finished = {"task": "classify", "test": {"accuracy": 0.97}}
    assert main.main(["main.py", "--config=digits", "--workdir=a"]) == 0
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
    assert main.main(["main.py", "--config=digits"]) == code
    assert capsys.readouterr().err == line + "\n"


def test_debug_shows_the_stack_trace(calls):
    calls.error = ValueError("odd")
    with pytest.raises(ValueError, match="odd"):
        main.main(["main.py", "--config=digits", "--debug"])


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
    assert main.main(["main.py", *argv]) == 2
    error = capsys.readouterr().err
    assert part in error and error.count("\n") == 1
    assert not calls.ran


def test_another_backend_is_refused_by_name(calls, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert main.main(["main.py", "--config=digits"]) == 2
    assert "KERAS_BACKEND=jax" in capsys.readouterr().err


def test_a_bad_config_is_told_before_tensorflow_is_imported():
    code = (
        "import main, sys\n"
        "assert main.main(['main.py', '--config=digits', '--config.sed=1']) == 2\n"
        "assert not {'tensorflow', 'keras'} & sys.modules.keys()\n"
    )
    root = main.__file__.removesuffix("main.py")
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_a_flag_is_not_taken_for_a_missing_value(calls, capsys):
    assert main.main(["main.py", "--config=digits", "--config.train.epochs", "--workdir=a"]) == 2
    assert "train.epochs" in capsys.readouterr().err and not calls.ran


def test_a_default_workdir_that_cannot_be_made_is_one_line(calls, capsys):
    open("runs", "w").close()
    assert main.main(["main.py", "--config=digits"]) == 2
    assert "--workdir" in capsys.readouterr().err


def test_a_runtime_without_tensorflow_is_told_how_to_install_it(tmp_path):
    program = f"""
import sys
import main

class Missing:
    def find_spec(self, name, *_):
        if name == "tensorflow":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
sys.exit(main.main(["main.py", "--config=digits", "--workdir={tmp_path}"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(main.__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: TensorFlow is not installed here: `pip install")


def test_several_processes_need_a_workdir_that_all_see(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}',
    )
    assert main.main(["main.py", "--config=digits"]) == 2
    assert "error: --workdir is missing: 2 processes" in capsys.readouterr().err

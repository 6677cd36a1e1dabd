import csv
import json
import signal
from pathlib import Path

import pytest

from posvit_tf import config
from posvit_tf.errors import UserError
from posvit_tf.tasks import sweep, sweep_plan, sweep_runs
from tests.conftest import TINY
from tests.forked import Run, until

CONFIG = f"""
from ml_collections import ConfigDict
from posvit_tf.config import parse_arguments

def get_config(arg=""):
    args = parse_arguments(arg, plan=False)
    return ConfigDict(dict(
        task="sweep", title="Tiny", scale="laptop", plan=args.plan, seed=0, seeds=1, workers=1,
        overrides={" ".join(f"{field}={value}" for field, value in TINY.items())!r},
        cells=tuple(
            dict(axes=dict(data="digits", attention=kind), command=f"digits:attention={{kind}}",
                 paper=(98.0, 97.0, 99.0))
            for kind in ("uniform", "content")
        ),
        compare=("attention", "content"), plot="boxes", note="",
    ))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a config `tiny` of two short runs."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "tiny.py").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def summary(workdir):
    """The lines of summary.csv without the seconds."""
    lines = list(csv.DictReader((workdir / "summary.csv").open()))
    assert all(float(line.pop("seconds")) >= 0 for line in lines)
    return lines


def start(workdir, *flags):
    """The sweep in a process of its own."""
    return Run(["--config=tiny", f"--workdir={workdir}", *flags], Path(f"{workdir}.txt"))


def results(workdir):
    return sorted(workdir.glob("runs/*/*/result.json"))


@pytest.mark.slow
def test_a_killed_sweep_goes_on_repeats_nothing_and_ends_with_the_same_summary(folder):
    straight, killed = folder / "straight", folder / "killed"
    run = start(straight, "--config.workers=2")
    assert run.wait(600) == 0, run.text()
    assert len(results(straight)) == 2

    run = start(killed)
    second = killed / "runs" / "digits_content" / "seed_0"
    until(lambda: any(second.glob("checkpoints/update*")), run, 600)
    run.signal(signal.SIGKILL)
    run.wait()
    (first,) = results(killed)
    written = first.stat().st_mtime_ns

    run = start(killed)
    until(lambda: (second / "output.txt").read_text().count("workdir:") == 2, run)
    run.signal(signal.SIGINT)
    assert run.wait() == 130, run.text()
    assert f"go on with: posvit --config=tiny --workdir={killed}" in run.text()

    run = start(killed)
    assert run.wait(600) == 0, run.text()
    assert first.stat().st_mtime_ns == written
    assert summary(killed) == summary(straight)
    found, expected = (
        json.loads((workdir / "result.json").read_text()) for workdir in (killed, straight)
    )
    assert found["differences"] == expected["differences"]
    assert (killed / "summary.md").read_text().count("digits:attention=content") == 1
    assert (killed / "plots" / "tiny.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_failing_run_stops_the_sweep_and_is_named_with_its_last_line(folder):
    loaded = config.load("tiny", {"overrides": "data.batch_size=2000"})
    with pytest.raises(UserError) as error:
        sweep.run(loaded, folder / "work")
    message = str(error.value)
    assert message.startswith("data digits, attention uniform, seed 0 failed (exit code 2;")
    assert "error: one update takes 2000 examples" in message
    assert not (folder / "work" / "runs" / "digits_content").exists()


def test_a_bad_cell_is_told_before_anything_starts(folder):
    with pytest.raises(UserError, match=r"data digits, attention uniform: unknown field 'epochs'"):
        sweep.run(config.load("tiny", {"overrides": "epochs=3"}), folder / "work")
    assert not (folder / "work").exists()


def test_what_a_cell_sets_wins_over_the_overrides(folder):
    loaded = config.load("tiny")
    loaded.cells = ({**loaded.cells[0], "command": "digits train.epochs=7"},)
    (run,) = sweep_runs.expand(loaded, folder)
    assert run.config.train.epochs == 7
    # The run's own process reads the flags the same way.
    assert run.flags.index("--config.train.epochs=2") < run.flags.index("--config.train.epochs=7")


@pytest.mark.slow
def test_a_plan_counts_what_the_runs_will_do(folder, capsys):
    loaded = config.load("tiny:plan", {"seeds": 3, "workers": 2})
    loaded.overrides += " model.depth=2"
    (folder / "work").mkdir()
    plan = sweep.run(loaded, folder / "work")
    cell = plan["cells"][0]
    # 2 epochs of 10 updates of 16; 2 evaluations of 37 images and the test of 360.
    assert (plan["runs"], cell["updates"]) == (6, 20)
    assert sweep_plan.lengths(sweep_runs.expand(loaded, folder)[0].config) == (20, 2 * 37 + 360)
    # The first block's V, W_O and MLP of width 16 take 6 * 64 products for each of 17 tokens.
    products = 17 * 6 * 64
    assert 1 < cell["flops"] / (3 * 2 * products * (320 + 434 / 3)) < 2
    sweep.tell(plan, folder / "work")
    assert "6 runs, 0 finished before: 120 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "laptop", "paper"),
    [("figure5", 27, 75), ("figure7", 6, 60), ("figure8", 12, 12), ("wiring", 36, 60)],
)
def test_every_run_of_the_experiments_has_a_config_and_a_workdir_of_its_own(
    name, laptop, paper, tmp_path
):
    for scale, count in (("laptop", laptop), ("paper", paper)):
        runs = sweep_runs.expand(config.load(f"{name}:scale={scale}"), tmp_path)
        assert len(runs) == len({run.workdir for run in runs}) == count
        assert len({str(run.config.copy_and_resolve_references()) for run in runs}) == count

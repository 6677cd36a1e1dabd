"""Whole runs under faults that really happen: kills, full and read-only disks, two runs in one folder."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from posvit_tf.training import checkpoint
from tests.forked import Run, saved, until

pytestmark = pytest.mark.slow
RANDOM = {"model.dropout": 0.2, "model.drop_path": 0.2, "data.crop_padding": 1}


def flags(tiny_flags, workdir, **changes):
    fields = [f"--config.{field}={value}" for field, value in {**RANDOM, **changes}.items()]
    return [*tiny_flags, *fields, f"--workdir={workdir}"]


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def mounted(tmp_path):
    """mounted(options) -> a tmpfs of its own, unmounted at the end."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "posvit_tf_test", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


def kill(run, workdir, delay):
    """Kill -9 a delay after the next checkpoint; without one, while a checkpoint is being written."""
    before = saved(workdir)
    until(lambda: "training:" in run.text(), run)
    if delay is None:
        until(lambda: any((workdir / "checkpoints").glob(".*.tmp")), run)
    else:
        until(lambda: saved(workdir) > before, run)
        time.sleep(delay)
    run.signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL


def test_twenty_kills_at_random_moments_change_nothing(tiny_flags, tmp_path):
    changes = {"train.epochs": 60, "checkpoint.every_epochs": 1, "eval.every_epochs": 2}
    straight = Run(flags(tiny_flags, tmp_path / "straight", **changes), tmp_path / "straight.txt")
    assert straight.wait(300) == 0, straight.text()

    workdir = tmp_path / "killed"
    arguments = flags(tiny_flags, workdir, **changes)
    draw = random.Random(0)
    for number in range(20):
        run = Run(arguments, tmp_path / f"{number}.txt")
        kill(run, workdir, None if number % 2 else draw.uniform(0, 0.2))
    assert not (workdir / "result.json").exists()

    last = Run(arguments, tmp_path / "last.txt")
    assert last.wait(300) == 0, last.text()
    assert "resumed at update" in last.text()
    found, expected = (
        json.loads((folder / "result.json").read_text())
        for folder in (workdir, tmp_path / "straight")
    )
    assert found["weights_sha256"] == expected["weights_sha256"]
    assert found["test"] == expected["test"]
    keys = ("step", "epoch", "split", "loss", "accuracy", "examples")
    assert [[line[key] for key in keys] for line in lines(workdir)] == [
        [line[key] for key in keys] for line in lines(tmp_path / "straight")
    ]
    steps = [line["step"] for line in lines(workdir)]
    assert steps == sorted(steps)


def test_sigterm_saves_and_exits_143(tiny_flags, tmp_path):
    workdir = tmp_path / "run"
    run = Run(flags(tiny_flags, workdir, **{"train.epochs": 10_000}), tmp_path / "out.txt")
    until(lambda: saved(workdir), run)
    run.signal(signal.SIGTERM)
    assert run.wait() == 143, run.text()
    update = checkpoint.latest(workdir / "checkpoints")[1]["update"]
    assert f"saved at update {update} of 100000" in run.text()


def test_a_second_ctrl_c_exits_at_once(tiny_flags, tmp_path):
    workdir = tmp_path / "run"
    run = Run(flags(tiny_flags, workdir, **{"train.epochs": 10_000}), tmp_path / "out.txt")
    until(lambda: saved(workdir), run)
    os.kill(run.process.pid, signal.SIGSTOP)  # both signals are there before it can act on one
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        os.kill(run.process.pid, number)
    assert run.wait(10) in (130, 143)
    assert "saved at" not in run.text()
    assert checkpoint.latest(workdir / "checkpoints")[1]["update"] % 10 == 0  # an epoch's end


def test_a_second_run_in_the_workdir_is_refused(tiny_flags, tmp_path):
    workdir = tmp_path / "run"
    first = Run(flags(tiny_flags, workdir, **{"train.epochs": 10_000}), tmp_path / "first.txt")
    until(lambda: saved(workdir), first)
    command = (workdir / "command.txt").read_text()
    arguments = flags(tiny_flags, workdir, **{"train.epochs": 10_000})
    second = Run(arguments, tmp_path / "second.txt")
    assert second.wait() == 2
    assert f"error: another run or export is at work in {workdir}" in second.text()
    assert (workdir / "command.txt").read_text() == command
    first.signal(signal.SIGKILL)  # the lock goes with the process that held it
    first.wait()
    third = Run(arguments, tmp_path / "third.txt")
    until(lambda: "resumed at update" in third.text(), third)
    third.signal(signal.SIGKILL)
    third.wait()


def test_a_full_disk_names_the_path_and_keeps_the_checkpoint_before(tiny_flags, tmp_path, mounted):
    disk = mounted("size=6m")
    workdir = disk / "run"
    changes = {"train.epochs": 10_000, "model.width": 64, "model.mlp_width": 64}
    run = Run(flags(tiny_flags, workdir, **changes), tmp_path / "out.txt")
    until(lambda: saved(workdir), run)
    with open(disk / "filler", "wb", buffering=0) as filler:
        while run.process.is_alive():  # what an old checkpoint frees is taken, too
            try:
                filler.write(bytes(4096))
            except OSError:
                time.sleep(0.001)
    assert run.wait() == 2, run.text()
    error = run.text().splitlines()[-1]
    assert error.startswith("error: cannot write") and str(workdir) in error
    assert "No space left on device" in error
    (disk / "filler").unlink(missing_ok=True)
    again = Run(flags(tiny_flags, workdir, **changes), tmp_path / "again.txt")
    until(lambda: "resumed at update" in again.text(), again)
    again.signal(signal.SIGKILL)
    again.wait()


def test_a_truncated_newest_checkpoint_falls_back_with_a_warning(tiny_flags, tmp_path):
    workdir = tmp_path / "run"
    changes = {"train.epochs": 10_000, "checkpoint.keep": 3}
    run = Run(flags(tiny_flags, workdir, **changes), tmp_path / "out.txt")
    until(lambda: len(saved(workdir)) == 3, run)
    run.signal(signal.SIGKILL)
    run.wait()
    before, newest = saved(workdir)[-2:]
    with open(workdir / "checkpoints" / newest, "r+b") as file:
        file.truncate(1000)
    again = Run(flags(tiny_flags, workdir, **changes), tmp_path / "again.txt")
    until(lambda: "resumed at update" in again.text(), again)
    again.signal(signal.SIGKILL)
    again.wait()
    assert f"{newest} is not a whole checkpoint" in again.text()
    assert f"resumed at update {int(before[7:16])} " in again.text()


def test_a_folder_that_cannot_be_written_is_one_line(tiny_flags, tmp_path, mounted):
    file = tmp_path / "file"
    file.write_text("")
    inside = Run(flags(tiny_flags, file / "run"), tmp_path / "inside.txt")
    itself = Run(flags(tiny_flags, file), tmp_path / "itself.txt")
    read_only = Run(flags(tiny_flags, mounted("ro") / "run"), tmp_path / "read_only.txt")
    for run, why in (
        (inside, "Not a directory"),
        (itself, "File exists"),
        (read_only, "Read-only file system"),
    ):
        assert run.wait() == 2
        error = run.text().splitlines()[-1]
        assert error.startswith("error: cannot write") and why in error and "--workdir" in error

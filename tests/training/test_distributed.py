"""Whole runs on several devices and in several processes: they end where one device ends."""

import json
import signal
import socket

import numpy as np
import pytest

from tests.forked import Run, saved, until

pytestmark = pytest.mark.slow
EVERYTHING = {
    "train.epochs": 3,
    "train.accumulate": 2,
    "train.label_smoothing": 0.1,
    "optimizer.clip_norm": 0.5,
    "optimizer.ema_decay": 0.9,
    "optimizer.weight_decay": 0.05,
}


def flags(tiny_flags, changes, workdir):
    fields = [f"--config.{field}={value}" for field, value in changes.items()]
    return [*tiny_flags, *fields, f"--workdir={workdir}"]


def start_two(arguments, folder, more_for_the_second=()):
    """Two processes on this host."""
    with socket.create_server(("localhost", 0)) as a, socket.create_server(("localhost", 0)) as b:
        workers = [f"localhost:{s.getsockname()[1]}" for s in (a, b)]
    return [
        Run(
            [*arguments, *(more_for_the_second if index else ())],
            folder / f"worker_{index}.txt",
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(2)
    ]


def losses(workdir):
    """(split, step) -> loss."""
    rows = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return {(row["split"], row["step"]): row["loss"] for row in rows}


def result(workdir):
    return json.loads((workdir / "result.json").read_text())


@pytest.fixture(scope="module", params=[("sgd", 1e-6), ("adamw", 1e-5)], ids=["sgd", "adamw"])
def one_device(request, tmp_path_factory):
    from tests.conftest import TINY

    name, tolerance = request.param
    changes = {**EVERYTHING, "optimizer.name": name}
    folder = tmp_path_factory.mktemp(name)
    fields = ["--config=digits", *(f"--config.{k}={v}" for k, v in TINY.items())]
    assert Run(flags(fields, changes, folder / "run"), folder / "out.txt").wait() == 0
    return changes, losses(folder / "run"), tolerance


@pytest.mark.parametrize("devices", [2, 4])
def test_logical_devices_end_where_one_device_does(one_device, tiny_flags, tmp_path, devices):
    changes, expected, tolerance = one_device
    changes = {**changes, "strategy": "mirrored", "cpu_devices": devices}
    run = Run(flags(tiny_flags, changes, tmp_path / "run"), tmp_path / "out.txt")
    assert run.wait() == 0, run.text()
    assert f"batch 16 = {devices} CPU x {16 // devices}" in run.text()
    assert result(tmp_path / "run")["replicas"] == devices
    compare(losses(tmp_path / "run"), expected, tolerance)


def test_two_processes_end_where_one_device_does(one_device, tiny_flags, tmp_path):
    changes, expected, tolerance = one_device
    changes = {**changes, "strategy": "multiworker"}
    runs = start_two(flags(tiny_flags, changes, tmp_path / "run"), tmp_path)
    assert [run.wait() for run in runs] == [0, 0], runs[0].text()
    assert "batch 16 = 2 CPU x 8" in runs[0].text()
    assert "test accuracy" in runs[0].text() and "accuracy" not in runs[1].text()
    compare(losses(tmp_path / "run"), expected, tolerance)


def compare(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for key, loss in expected.items():
        np.testing.assert_allclose(found[key], loss, rtol=tolerance, err_msg=str(key))


def test_a_lost_process_ends_the_others_and_both_started_again_end_alike(tiny_flags, tmp_path):
    changes = {"model.dropout": 0.2, "train.epochs": 60, "strategy": "multiworker"}

    def start(name):
        (tmp_path / name).mkdir(exist_ok=True)
        return start_two(flags(tiny_flags, changes, tmp_path / name / "run"), tmp_path / name)

    straight = start("straight")
    assert [run.wait() for run in straight] == [0, 0], straight[0].text()

    workdir = tmp_path / "lost" / "run"
    for number, to_stop in ((signal.SIGKILL, 1), (signal.SIGTERM, 1), (signal.SIGKILL, 0)):
        before = saved(workdir)
        runs = start("lost")
        until(lambda before=before: saved(workdir) > before, runs[0])
        runs[to_stop].signal(number)
        other = runs[1 - to_stop]
        code = other.wait(60)
        if number == signal.SIGTERM:  # both save at the same update
            assert code == 143 == runs[to_stop].wait(), other.text()
        else:
            assert code == 2, other.text()
            assert f"error: process {1 - to_stop} of 2 lost another one" in other.text()
            runs[to_stop].wait()
    last = start("lost")
    assert [run.wait() for run in last] == [0, 0], last[0].text()
    assert "resumed at update" in last[0].text()
    found, expected = (result(tmp_path / name / "run") for name in ("lost", "straight"))
    assert found["weights_sha256"] == expected["weights_sha256"]
    assert found["test"] == expected["test"]


def test_a_process_that_was_stopped_while_the_others_ended_ends_when_it_goes_on(
    tiny_flags, tmp_path
):
    changes = {"train.epochs": 500, "strategy": "multiworker"}
    runs = start_two(flags(tiny_flags, changes, tmp_path / "run"), tmp_path)
    until(lambda: saved(tmp_path / "run"), runs[0])
    runs[1].signal(signal.SIGSTOP)
    runs[0].signal(signal.SIGKILL)
    runs[0].wait()
    runs[1].signal(signal.SIGCONT)
    assert runs[1].wait(60) == 2, runs[1].text()
    assert "error: process 1 of 2 lost another one" in runs[1].text()


@pytest.mark.parametrize(
    "other", ["--config.optimizer.learning_rate=0.1", "--config.model.width=16", "--workdir="]
)
def test_processes_that_are_not_started_alike_are_refused(tiny_flags, tmp_path, other):
    own = flags(tiny_flags, {"strategy": "multiworker"}, tmp_path / "run")
    if other == "--workdir=":
        other += str(tmp_path / "other")
    runs = start_two(own, tmp_path, [other])
    for index, run in enumerate(runs):
        assert run.wait() == 2, run.text()
        assert f"error: process {index} of 2 " in run.text()
    assert any("was not started like the others" in run.text() for run in runs)
    assert not (tmp_path / "run" / "checkpoints").exists()

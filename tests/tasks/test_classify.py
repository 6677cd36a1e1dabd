"""Whole runs on the real digits, small enough to repeat: what they leave, and what stopping does."""

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

import posvit_tf
from posvit_tf.data import permute, sources
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.layers.positions import resampling
from posvit_tf.models.build import build
from posvit_tf.tasks import classify
from posvit_tf.training import checkpoint, logbook, loop, replicas, run_files
from tests.forked import Run

FACTS = {"image_shape": (8, 8, 1), "class_names": "abc", "mean": (90.0,), "std": (60.0,)}
RANDOM = {"model.dropout": 0.2, "model.drop_path": 0.2, "model.depth": 2}
FOUR_EPOCHS = {**RANDOM, "train.epochs": 4}


def lines(workdir, split):
    rows = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["split"] == split]


def run(config, workdir):
    with run_files.claimed(workdir, config):
        return classify.run(config, workdir)


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory):
    """A run of four epochs that nothing interrupts."""
    workdir = tmp_path_factory.mktemp("straight")
    config = tiny(FOUR_EPOCHS)
    return config, workdir, run(config, workdir)


def test_a_run_leaves_what_the_contract_names(straight):
    config, workdir, result = straight
    assert result == json.loads((workdir / "result.json").read_text())
    names = "task config seed steps epochs parameters replicas weights_sha256 test".split()
    assert set(names) <= set(result)
    assert (result["steps"], result["epochs"], result["replicas"]) == (40, 4, 1)
    assert set(result["test"]) == {"accuracy", "balanced_accuracy", "loss", "examples"}
    assert result["test"]["examples"] == 360
    for file in ("config.json", "command.txt", "tensorboard", "plots/learning_curves.png"):
        assert (workdir / file).exists()
    assert [row["step"] for row in lines(workdir, "eval")] == [10, 20, 30, 40]
    assert [row["epoch"] for row in lines(workdir, "eval")] == [1, 2, 3, 4]
    assert sum(row["examples"] for row in lines(workdir, "train")) == 4 * 160
    assert len(list((workdir / "checkpoints").glob("update_*.npz"))) == config.checkpoint.keep
    assert np.shape(result["map_movement"]) == (2, config.model.heads)
    assert 0 < np.min(result["map_movement"]) < np.max(result["map_movement"]) < 1
    assert run_files.finished(workdir, config) == result


def test_load_gives_the_reported_model_back(straight):
    _, workdir, result = straight
    model, class_names, config = posvit_tf.load(workdir)
    assert class_names == tuple("0123456789")
    test = sources.load(config.data).test
    predictions = model.predict(test.images, verbose=0).argmax(axis=1)
    assert float(np.mean(predictions == test.labels)) == result["test"]["accuracy"]
    best = max(lines(workdir, "eval"), key=lambda row: row["accuracy"])
    assert result["eval"]["step"] == best["step"]


def test_evaluation_only(straight, tiny, tmp_path):
    _, workdir, result = straight
    config = tiny({**RANDOM, "train.epochs": 0, "init_from": str(workdir)})
    again = run(config, tmp_path)
    assert (again["test"], again["map_movement"]) == (result["test"], None)


@pytest.mark.slow
def test_fine_tuning_on_another_size_with_fixed_maps_and_its_resume(tiny, tmp_path, capsys):
    run(tiny({"train.steps": 3}), tmp_path / "first")
    best = Path("checkpoints", "best.npz")
    alone = (tmp_path / "first" / best).rename(tmp_path / "alone.npz")
    there, record = checkpoint.load(alone)
    changes = {"data.train_split": "train[:200]", "data.image_size": "8,12"}
    decay = {"optimizer.weight_decay": 0.5, "optimizer.ema_decay": 0.9}
    fixed = {"init_from": alone, "train.freeze_attention": True}
    config, workdir = tiny({**changes, **decay, **fixed}), tmp_path / "second"
    result = run(config, workdir)
    assert "positions/table 4x4 -> 4x6" in capsys.readouterr().out

    here, here_record = checkpoint.load(workdir / best)
    matrix = resampling((4, 4), (4, 6), class_token=True)
    for name, value in there.items():
        if name.endswith("/table"):
            np.testing.assert_array_equal(here[name], (matrix @ value).astype("float32"))
        else:
            is_fixed = "/query/" in name or "/key/" in name
            assert np.array_equal(here[name], value) == is_fixed, name
    # pixels are normalised as the loaded weights had it, whatever is trained on
    for key in ("mean", "std"):
        assert here_record["facts"][key] == record["facts"][key]

    # stopped after the first epoch, and its start gone: it goes on all the same
    max(workdir.glob("checkpoints/update_*.npz")).unlink()
    alone.unlink()
    (workdir / "result.json").unlink()
    assert run(config, workdir)["weights_sha256"] == result["weights_sha256"]
    assert "loaded" not in capsys.readouterr().out


def run_until(update, config, workdir, monkeypatch):
    """Runs up to the end of an update, at which Ctrl-C is pressed; returns what the process exits with."""
    make_update = replicas.make_update

    def interrupted(*args):
        inner = make_update(*args)

        def update_weights(*batch):
            if int(batch[-1]) == update - 1:
                os.kill(os.getpid(), signal.SIGINT)
            return inner(*batch)

        return update_weights

    with monkeypatch.context() as patch:
        patch.setattr(replicas, "make_update", interrupted)
        with pytest.raises(SystemExit) as stop:
            run(config, workdir)
    return stop.value.code


@pytest.mark.parametrize("update", [20, 26])
def test_ctrl_c_saves_and_the_resumed_run_is_bitwise_equal(
    straight, tiny, tmp_path, monkeypatch, capsys, update
):
    config, _, result = straight
    assert run_until(update, config, tmp_path, monkeypatch) == 130
    assert f"--workdir={tmp_path}" in capsys.readouterr().out
    assert checkpoint.latest(tmp_path / "checkpoints")[1]["update"] == update

    # as after a power cut: a line half written and one past the checkpoint
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 39, "epoch": 4, "split": "train", "loss": 0.0}\n{"step": 4')
    again = run(config, tmp_path)
    assert again["weights_sha256"] == result["weights_sha256"]
    assert again["test"] == result["test"]
    assert again["map_movement"] == result["map_movement"]
    for split in ("train", "eval"):
        steps, losses = ([row[key] for row in lines(tmp_path, split)] for key in ("step", "loss"))
        assert steps == [row["step"] for row in lines(straight[1], split)]
        assert losses == [row["loss"] for row in lines(straight[1], split)]


def test_a_config_of_another_version_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"data": {"name": "digits"}}')
    with pytest.raises(
        UserError, match=r"config.json lacks task, model.name, precision: .* train again"
    ):
        posvit_tf.load(tmp_path)


@pytest.mark.slow
def test_a_model_with_batch_norm_resumes_bitwise_and_is_loaded_as_reported(
    tiny, tmp_path, monkeypatch
):
    config = tiny({"optimizer.name": "sgd", "optimizer.ema_decay": 0.9, "data.cell_size": 2})
    with config.unlocked():
        config.model = ConfigDict({"name": "resnet18", "width": 2})
    expected = run(config, tmp_path / "straight")
    assert list(expected["captions"]) == ["learning_curves.png"]
    assert run_until(13, config, tmp_path / "stopped", monkeypatch) == 130
    found = run(config, tmp_path / "stopped")
    assert found["weights_sha256"] == expected["weights_sha256"]
    assert found["test"] == expected["test"]

    model, _, loaded = posvit_tf.load(tmp_path / "stopped")
    test = sources.load(loaded.data).test
    moved = permute.permuted(test.images, permute.pixel_order(loaded.data, test.images.shape))
    predictions = model.predict(moved, verbose=0).argmax(axis=1)
    assert float(np.mean(predictions == test.labels)) == expected["test"]["accuracy"]


@pytest.mark.slow
def test_kill_in_mid_epoch_and_the_resumed_run_is_bitwise_equal(straight, tiny_flags, tmp_path):
    workdir = tmp_path / "run"
    fields = [f"--config.{k}={v}" for k, v in FOUR_EPOCHS.items()]
    flags = [*tiny_flags, *fields, f"--workdir={workdir}"]
    first = Run(flags, tmp_path / "first.txt")
    metrics = workdir / "metrics.jsonl"
    while not (metrics.exists() and '"step": 20' in metrics.read_text()):
        assert first.process.is_alive(), first.text()
        time.sleep(0.005)
    first.signal(signal.SIGKILL)
    first.wait()
    assert not (workdir / "result.json").exists()
    second = Run(flags, tmp_path / "second.txt")
    assert second.wait() == 0, second.text()
    assert "resumed at update" in second.text()
    assert second.text().splitlines()[-1] == f"workdir: {workdir}"
    result = json.loads((workdir / "result.json").read_text())
    assert result["weights_sha256"] == straight[2]["weights_sha256"]

    third = Run(flags, tmp_path / "third.txt")  # finished: it only tells
    assert third.wait() == 0
    assert f"test accuracy {result['test']['accuracy']:.4f}" in third.text()


def test_a_loss_that_is_not_finite_names_its_update_and_keeps_the_checkpoint(
    tiny, tmp_path, monkeypatch
):
    make_update = replicas.make_update

    def broken(*args):
        inner = make_update(*args)
        return lambda *batch: inner(*batch) * (float("nan") if int(batch[-1]) >= 13 else 1.0)

    monkeypatch.setattr(replicas, "make_update", broken)
    with pytest.raises(
        UserError,
        match=r"not finite at update 14; .*update_000000010.npz is kept: .*learning_rate$",
    ):
        run(tiny(), tmp_path)
    assert checkpoint.latest(tmp_path / "checkpoints")[1]["update"] == 10


def test_a_rate_far_too_high_stops_the_run(tiny, tmp_path):
    with pytest.raises(UserError, match="not finite"):
        run(tiny({"optimizer.name": "sgd", "optimizer.learning_rate": 1e30}), tmp_path)


def test_without_eval_split_the_last_averaged_weights_are_reported(tiny, tmp_path):
    config = tiny({"data.eval_split": "", "optimizer.ema_decay": 0.9, "train.steps": 7})
    result = run(config, tmp_path)
    assert result["steps"] == 7 and result["eval"] is None and not lines(tmp_path, "eval")
    arrays, _ = checkpoint.latest(tmp_path / "checkpoints")
    best, _ = checkpoint.load(tmp_path / "checkpoints" / "best.npz")
    last = {k: v for k, v in arrays.items() if k.startswith("model/") and "seed" not in k}
    averages = [v for k, v in arrays.items() if k.endswith("average")]
    assert len(averages) == len(best)
    for average, reported in zip(averages, best.values(), strict=True):
        np.testing.assert_array_equal(average, reported)
    assert any((a != b).any() for a, b in zip(last.values(), best.values(), strict=True))


def test_every_field_is_read(tiny, tmp_path, monkeypatch):
    config, read = tiny({"train.steps": 1, "data.cell_size": 2}), set()
    sections = {id(config): ""} | {id(v): f"{k}." for k, v in config.items() if hasattr(v, "keys")}
    get = ConfigDict.__getitem__

    def recorded(self, key):
        if id(self) in sections:
            read.add(sections[id(self)] + key)
        return get(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(ConfigDict, "__getitem__", recorded)
        run(config, tmp_path)
    fields = set(flat(json.loads(config.to_json_best_effort())))
    # eval.every_epochs and checkpoint.every_epochs are read where an epoch ends
    assert fields - read == {"eval.every_epochs", "checkpoint.every_epochs"}


def test_another_config_in_the_workdir_is_refused_by_field(straight, tiny):
    with pytest.raises(UserError, match="another config.*train.epochs 4 there, 3 here"):
        run_files.finished(straight[1], tiny({**RANDOM, "train.epochs": 3}))


@pytest.mark.parametrize("line", ["{garbled}", "3", '{"loss": 1.0}', "\xff"])
def test_a_garbled_line_of_the_metrics_is_named(line, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "split": "train"}}\n{line}\n', encoding="latin-1")
    with pytest.raises(UserError, match=f"{path}, line 2, is not a line of a run"):
        logbook.Logbook(tmp_path, 1)


def test_a_damaged_result_is_named(tiny, tmp_path):
    with run_files.claimed(tmp_path, tiny()):
        (tmp_path / "result.json").write_text('{"test": 3}')
    with pytest.raises(UserError, match="result.json is damaged: delete it"):
        run_files.finished(tmp_path, tiny())


def test_a_start_that_failed_does_not_hold_the_workdir(tiny, tmp_path):
    with pytest.raises(UserError, match="3x3"):
        run(tiny({"model.patch_size": 3}), tmp_path)
    assert run_files.finished(tmp_path, tiny()) is None


def test_attention_may_be_an_override(tiny):
    # what an argument of the config sets and an override must be the same model
    for kind in ("positional", "content", "uniform"):
        by_override = build(tiny({"model.attention": kind}), FACTS)
        added = any(operation.name.startswith("add") for operation in by_override.operations)
        assert added == (kind != "positional")


@pytest.mark.parametrize(("n", "message"), [(160, "other data"), (37, "other eval_data")])
def test_other_images_under_a_run_are_refused(n, message, straight, monkeypatch):
    (config, workdir, _), same = straight, loop.fingerprint
    monkeypatch.setattr(
        loop, "fingerprint", lambda split: "other" if len(split.labels) == n else same(split)
    )
    with pytest.raises(UserError, match=message):
        classify.run(config, workdir)


def test_out_of_memory_names_the_batch(tiny, tmp_path, monkeypatch):
    def full(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(loop, "train", full)
    with pytest.raises(UserError, match=r"out of memory with data.batch_size=16"):
        run(tiny(), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.batch_size": 161}, "161.*160"),
        ({"data.batch_size": 15, "strategy": "mirrored", "cpu_devices": 2}, "15.*14 or 16"),
        ({"data.eval_batch_size": 9, "strategy": "mirrored", "cpu_devices": 2}, "9.*8 or 10"),
        ({"model.patch_size": 3}, "8x8.*3x3"),
        ({"strategy": "tpu"}, "strategy=tpu.*finds no TPU.*pip install"),
        ({"strategy": "multiworker"}, "strategy=multiworker.*TF_CONFIG"),
        ({"init_from": "/nowhere"}, "/nowhere"),
    ],
)
def test_bad_settings_are_one_line(tiny, tmp_path, changes, message):
    with pytest.raises(UserError) as error:
        run(tiny(changes), tmp_path)
    assert re.search(message, str(error.value)) and "\n" not in str(error.value)

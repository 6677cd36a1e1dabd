"""The JAX path beside TensorFlow's: the same updates, the same workdir, and no TensorFlow imported."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import tensorflow as tf

import posvit_tf
from posvit_tf import accelerated
from posvit_tf.data import augment, sources
from posvit_tf.fields import flat
from posvit_tf.tasks import classify
from posvit_tf.training import checkpoint, run_files
from posvit_tf.training.accelerator import crop_and_flip, draw

# An update takes the whole training set and nothing is random, so both backends see the same batches.
ALIKE = {
    "data.batch_size": 80,
    "train.accumulate": 2,
    "train.epochs": 20,
    "data.crop_padding": 0,
    "optimizer.clip_norm": 0.5,
    "optimizer.ema_decay": 0.9,
}
RECIPES = {
    "adamw": {**ALIKE, "optimizer.name": "adamw", "optimizer.weight_decay": 0.5},
    "adam": {
        **ALIKE,
        "optimizer.name": "adam",
        "optimizer.weight_decay": 0.05,
        "data.class_weights": "balanced",
        "data.cell_size": 2,
    },
}
RANDOM = {"model.dropout": 0.2, "model.drop_path": 0.2, "model.depth": 2, "train.epochs": 3}

PROGRAM = """
import json, os, signal, sys

os.environ["KERAS_BACKEND"] = "jax"
# Half of the time that compiling takes; the numbers stay.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

class Forbidden:
    def find_spec(self, name, *_):
        # No ImportError, which would pass for a TensorFlow that is not installed.
        assert name.partition(".")[0] != "tensorflow", name

sys.meta_path.insert(0, Forbidden())
from posvit_tf import accelerated
from posvit_tf.training import classification
from posvit_tf.training.accelerator import Accelerator
from tests import follower

of = classification.of
updates = Accelerator.updates

def interrupted(self, source, done):
    for number, figures in enumerate(updates(self, source, done), start=done + 1):
        if number == 13:  # in mid-epoch
            os.kill(os.getpid(), signal.SIGINT)
        yield figures

for stopped, *flags in json.loads(sys.argv[1]):
    Accelerator.updates = interrupted if stopped else updates
    classification.of = follower.of if "follow" in flags[-1] else of
    try:
        assert accelerated.main(flags) == 0, flags
    except SystemExit as stop:
        assert stopped and stop.code == 130, stop
"""


def flags(config, workdir):
    fields = flat(run_files.plain(config))
    given = [f"--config.{field}={value}" for field, value in fields.items() if field != "name"]
    return ["--config=digits", *given, f"--workdir={workdir}"]


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A folder with runs of TensorFlow, tf_adamw and tf_adam, and of JAX: adamw, adam, straight, resumed."""
    folder = tmp_path_factory.mktemp("runs")

    def by_tensorflow(changes, name):
        config = tiny(changes)
        with run_files.claimed(folder / name, config):
            classify.run(config, folder / name)

    by_tensorflow({**ALIKE, "train.epochs": 0}, "start")
    commands = []
    for name, changes in RECIPES.items():
        changes = {**changes, "init_from": str(folder / "start")}
        by_tensorflow(changes, f"tf_{name}")
        commands.append([False, *flags(tiny(changes), folder / name)])
    for follow in ("", "follow_"):  # an objective with numbers and a state of its own
        for name, stopped in (("straight", False), ("resumed", True), ("resumed", False)):
            commands.append([stopped, *flags(tiny(RANDOM), folder / f"{follow}{name}")])
    root = Path(posvit_tf.__file__).parents[1]
    subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(commands)], cwd=root, check=True)
    return folder


def losses(workdir):
    rows = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return {(row["split"], row["step"]): row["loss"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_twenty_updates_equal_tensorflows(runs, recipe):
    expected, found = losses(runs / f"tf_{recipe}"), losses(runs / recipe)
    assert found.keys() == expected.keys() and len(found) == 2 * 20 + 1
    for key, loss in expected.items():
        np.testing.assert_allclose(found[key], loss, atol=1e-4, err_msg=str(key))
    for file in ("best.npz", "update_000000020.npz"):  # best: the averaged weights
        expected, _ = checkpoint.load(runs / f"tf_{recipe}" / "checkpoints" / file)
        found, _ = checkpoint.load(runs / recipe / "checkpoints" / file)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "follow_"])
def test_an_interrupted_run_goes_on_bit_for_bit(runs, kind):
    one, other = (runs / f"{kind}{name}" for name in ("straight", "resumed"))
    straight, resumed = (run_files.read_json(workdir / "result.json") for workdir in (one, other))
    assert resumed["weights_sha256"] == straight["weights_sha256"]
    assert resumed["test"] == straight["test"]
    assert losses(other) == losses(one)
    assert "python -m posvit_tf.accelerated --config=" in (other / "command.txt").read_text()
    if kind:
        states = [checkpoint.latest(w / "checkpoints")[0] for w in (one, other)]
        (name,) = [name for name in states[0] if name.startswith("objective/")]
        assert np.abs(states[0][name]).max() > 0
        np.testing.assert_array_equal(states[0][name], states[1][name])


@pytest.mark.slow
def test_tensorflow_loads_what_jax_trained(runs):
    model, _, config = posvit_tf.load(runs / "straight")
    test = sources.load(config.data).test
    found = float(np.mean(model.predict(test.images, verbose=0).argmax(axis=1) == test.labels))
    assert found == pytest.approx(
        run_files.read_json(runs / "straight/result.json")["test"]["accuracy"]
    )


def test_a_drawn_crop_is_tensorflows():
    images = np.random.default_rng(0).integers(0, 256, (64, 6, 5, 3), dtype=np.uint8)
    draws = draw(jax.random.key(0), 64, padding=2, flip=True)
    assert [set(np.unique(d)) for d in draws] == [set(range(5)), set(range(5)), {False, True}]
    found = crop_and_flip(images, *draws, padding=2)
    expected = augment.crop_and_flip(images, *map(tf.constant, map(np.asarray, draws)), padding=2)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config.strategy=mirrored"], "strategy=mirrored is not for this path: set auto or one"),
        (["--config.precision=mixed_float16"], "set float32 or mixed_bfloat16, or use main.py"),
        (["--config=cifar10"], "--data=FILE.npz is missing; .* pack --config=cifar10"),
        (["--config=spatial"], "task=associate is not for this path"),
        (["unpack"], "unexpected word 'unpack'"),
        ([], "--workdir=DIR is missing"),
        (["--workdir=new"], "KERAS_BACKEND=tensorflow cannot train here; unset it or set jax"),
    ],
)
def test_what_this_path_does_not_do_is_one_line(flags, message, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", sys.argv)  # main sets it
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.chdir(tmp_path)
    assert accelerated.main(["--config=digits", *flags]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1

"""The seam of objectives, by one that draws numbers and keeps an average of its own."""

import json

import numpy as np
import pytest

from posvit_tf.tasks import tensorflow_run
from posvit_tf.training import checkpoint, run_files
from tests import follower

CHANGES = {"model.dropout": 0.0, "train.accumulate": 2, "optimizer.name": "sgd"}


def run(config, workdir):
    with run_files.claimed(workdir, config):
        return tensorflow_run.run(config, workdir, follower.of, lambda *_: None)


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("straight")
    return workdir, run(tiny(CHANGES), workdir)


def state(workdir):
    arrays, _ = checkpoint.latest(workdir / "checkpoints")
    (own,) = [array for name, array in arrays.items() if name.startswith("objective/")]
    return own


def test_its_figures_are_logged_and_its_state_moves_once_an_update(straight):
    workdir, _ = straight
    train = [line for line in lines(workdir) if line["split"] == "train"]
    assert all(line["distance"] > 0 for line in train)
    weights, _ = checkpoint.load(workdir / "checkpoints" / "best.npz")
    head = next(v for name, v in weights.items() if name.endswith("logits/kernel"))
    assert state(workdir).shape == head.shape and np.abs(state(workdir)).max() > 0


def test_a_resumed_run_is_bitwise_the_straight_one(straight, tiny, tmp_path):
    workdir, result = straight
    config = tiny(CHANGES)
    run(config, tmp_path)
    newest = max((tmp_path / "checkpoints").glob("update_*.npz"))
    newest.unlink()
    (tmp_path / "result.json").unlink()
    assert run(config, tmp_path)["weights_sha256"] == result["weights_sha256"]
    np.testing.assert_array_equal(state(tmp_path), state(workdir))


def test_two_devices_draw_and_follow_as_one(straight, tiny, tmp_path):
    run(tiny({**CHANGES, "strategy": "mirrored", "cpu_devices": 2}), tmp_path)
    for one, other in zip(lines(straight[0]), lines(tmp_path), strict=True):
        for figure in ("loss", "distance"):
            if figure in one:
                assert other[figure] == pytest.approx(one[figure], rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(state(tmp_path), state(straight[0]), atol=1e-6)

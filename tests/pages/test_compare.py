import json

import pytest

from posvit_tf.errors import UserError
from posvit_tf.pages import compare


@pytest.fixture
def workdir(tmp_path):
    """workdir("a", seed=1, accuracy=0.5, depth=2) -> a folder as a finished run leaves it."""

    def make(name, seed, accuracy, task="classify", **model):
        folder = tmp_path / name
        folder.mkdir()
        result = {"task": task, "config": "digits", "captions": {}, "seed": seed, "steps": 20}
        result |= {"epochs": 2.0, "seconds": 60.0, "parameters": 1000, "eval": None}
        result["test"] = {"accuracy": accuracy, "loss": 1.0, "examples": 10}
        config = {"task": task, "seed": seed, "name": f"digits:{name}", "model": model}
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "config.json").write_text(json.dumps(config))
        lines = [{"step": 10 * k, "split": "eval", "accuracy": accuracy * k} for k in (1, 2)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    return make


def test_runs_that_differ_by_seed_alone_are_a_group(workdir):
    folders = [
        workdir("a", 1, 0.5, depth=2, heads=4),
        workdir("b", 0, 0.9, depth=3, heads=4),
        workdir("c", 0, 0.6, depth=2, heads=4),
    ]
    deep, shallow = compare.grouped([compare.read(folder) for folder in folders])
    assert (deep["label"], shallow["label"]) == ({"model.depth": 3}, {"model.depth": 2})
    assert shallow["seeds"] == [0, 1] and shallow["accuracy"]["mean"] == pytest.approx(0.55)
    assert shallow["accuracy"]["std"] == pytest.approx(0.1 / 2**0.5)
    assert deep["accuracy"]["std"] is None


def test_what_cannot_be_compared_is_named(workdir, tmp_path):
    good, theory = workdir("a", 0, 0.5), workdir("t", 0, 0.5, task="associate")
    out = tmp_path / "compare.html"
    for folders, message in (
        ([good, theory], f"{theory} is a run of task associate"),
        ([good, tmp_path / "nothing"], "nothing holds no finished run"),
        ([good, tmp_path / "b" / ".." / "a"], f"{good} is named twice"),
    ):
        with pytest.raises(UserError, match=message):
            compare.write(out, folders)
    assert not out.exists()

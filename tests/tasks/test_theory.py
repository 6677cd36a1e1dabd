"""The theory's tasks leave a workdir that a person and a program can read."""

import json

import pytest

from posvit_tf.config import load
from posvit_tf.errors import UserError
from posvit_tf.tasks import associate, claims, gaussian, paper_claims, transfer

SHORT = {"steps": 12, "seeds": 2, "N": 64}


def result(task, config, workdir):
    task.tell(task.run(config, workdir), workdir)
    found = json.loads((workdir / "result.json").read_text())
    assert found["task"] == config.task and found["config"] == config.name
    for name in found["captions"]:
        assert (workdir / "plots" / name).stat().st_size > 10_000
    return found, [json.loads(line) for line in open(workdir / "metrics.jsonl")]


def test_associate(tmp_path, capsys):
    found, lines = result(associate, load("spatial:setting=tiny", SHORT), tmp_path)
    for name in ("test_error", "linear_error", "set_aware_error", "cosine"):
        assert set(found[name]) == {"mean", "std", "min", "max", "per_seed"}
        assert len(found[name]["per_seed"]) == 2
    assert found["setting"] == "custom" and found["seeds"] == [0, 1]
    assert 0 <= found["association"]["exact"] <= 1
    assert found["association"]["chance"] == 3 / 31
    assert set(found["events"]) == {"t1", "t2", "t3"}
    assert found["events"]["t1"]["per_seed"] == [None, None]
    assert [line["step"] for line in lines if line["split"] == "seed_1"] == list(range(13))
    printed = capsys.readouterr().out
    assert "outside the paper's regime" in printed  # the linear rule errs .02 < 1/8
    assert "t1, a linear rule         never" in printed


def test_figure_4_is_drawn_beside_the_paper(tmp_path):
    config = load("spatial:setting=figure4", {"seeds": 1})
    found, _ = result(associate, config, tmp_path)
    assert "figure4.png" in found["captions"] and found["setting"] == "figure4"
    assert found["test_error"]["mean"] == pytest.approx(0.0255, abs=0.006)


def test_transfer(tmp_path):
    config = load("transfer:setting=tiny", SHORT | {"largest_n": 40})
    found, lines = result(transfer, config, tmp_path)
    assert list(found["transfer"]["frozen"]) == ["16", "32"]
    assert [line["step"] for line in lines] == [16, 32] * 2


def test_gaussian(tmp_path):
    found, _ = result(gaussian, load("gaussian", SHORT), tmp_path)
    assert found["association"]["chance"] == 3 / 35


def test_a_claim_needs_five_seeds(tmp_path):
    with pytest.raises(UserError, match="seeds=4"):
        claims.run(load("claims", {"seeds": 4}), tmp_path)


def test_claims_are_tabled_and_a_failing_one_is_shown_as_failing(tmp_path, monkeypatch):
    short = dict(D=16, C=4, d=8, N=64, q=0.125, steps=2)
    for name in ("SETTINGS", "GAUSSIAN_SETTINGS"):
        monkeypatch.setattr(paper_claims, name, dict.fromkeys(getattr(paper_claims, name), short))
    claims.run(load("claims"), tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())["claims"]
    lines = (tmp_path / "claims.md").read_text().splitlines()
    assert len(found) == 12 and len(lines) == 4 + 12
    realistic = next(i for i, row in enumerate(found) if row["claim"] == "4.2 realistic")
    assert not found[realistic]["holds"]  # two steps teach nothing
    assert lines[4 + realistic].endswith("| **no** |")

"""The three processes on settings that take a second, and what must not be learned."""

import dataclasses

import numpy as np
import pytest

from posvit_tf.theory.events import events
from posvit_tf.theory.processes import idealised, realistic, semi_idealised
from posvit_tf.theory.scalars import idealised_scalars
from posvit_tf.theory.settings import SETTINGS, Setting

TINY = Setting(**SETTINGS["tiny"] | dict(steps=150))


@pytest.mark.parametrize("partition", ["contiguous", "random"])
def test_tiny_finds_its_sets(partition):
    run = realistic(dataclasses.replace(TINY, partition=partition), seed=0)
    last = run.trace[-1]
    assert last["overlap"] == 1 and last["test_error"] <= 0.01 and last["cosine"] > 0.95
    assert last["step"] == 150 and len(run.alphas) == 151
    times = events(run.trace, linear_error=0.0193)
    assert times["t1"] <= times["t2"] < times["t3"]


def test_a_seed_repeats_bit_by_bit_and_seeds_differ():
    short = dataclasses.replace(TINY, steps=20)
    one, two, other = (realistic(short, seed) for seed in (0, 0, 1))
    assert (one.A == two.A).all() and (one.v == two.v).all() and one.trace == two.trace
    assert (one.A != other.A).any()


@pytest.mark.parametrize("change", [dict(sigma_A=0.0), dict(q=1.0), dict(steps=0)])
def test_controls_do_not_associate(change):
    last = realistic(dataclasses.replace(TINY, **change), seed=0).trace[-1]
    assert last["overlap"] < 0.35  # chance is .097


def test_nothing_trained_depends_on_the_partition(monkeypatch):
    run = realistic(dataclasses.replace(TINY, steps=30), seed=0)
    monkeypatch.setattr("posvit_tf.theory.association.tied_values", lambda A, sets: (0.0, 0.0))
    monkeypatch.setattr("posvit_tf.theory.association.overlap", lambda A, sets, rng: 0.0)
    assert (realistic(dataclasses.replace(TINY, steps=30), seed=0).A == run.A).all()


def test_full_matrix_and_three_scalars_agree_early():
    setting = dataclasses.replace(TINY, N=4096, omega=0.03, steps=25)
    run, path = idealised(setting, seed=0), idealised_scalars(setting, seed=0)
    np.testing.assert_allclose(path.alpha, run.alphas, rtol=1e-3)
    for record in run.trace:
        step = record["step"]
        assert path.gamma[step] == pytest.approx(record["gamma"], abs=0.01, rel=0.02)
        assert path.rho[step] == pytest.approx(record["rho"], abs=0.01, rel=0.02)
        assert path.risk[step] == pytest.approx(record["risk"], rel=0.1)  # on other samples
    assert path.gamma[-1] > 0.03  # it moved


def test_semi_idealised_holds_v_at_the_realistic_alpha_and_associates():
    setting = dataclasses.replace(TINY, steps=100)
    run = semi_idealised(setting, seed=0)
    np.testing.assert_allclose(run.alphas, realistic(setting, seed=0).alphas, rtol=1e-6)
    assert run.trace[-1]["overlap"] == 1


def test_events_are_null_when_they_never_come():
    def record(step, error, gap, risk):
        return {"step": step, "test_error": error, "gamma": gap, "rho": 0.0, "risk": risk}

    trace = [record(0, 0.5, 0.0, 1.0), record(1, 0.21, 0.2, 0.9), record(2, 0.1, 0.6, 0.5)]
    assert events(trace, 0.2) == {"t1": 1, "t2": 2, "t3": None}
    trace.append(record(3, 0.0, 1.0, 0.04))
    assert events(trace, 0.2) == {"t1": 1, "t2": 2, "t3": 3}
    assert events(trace[:1], 0.2) == {"t1": None, "t2": None, "t3": None}

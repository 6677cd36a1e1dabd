"""Transfer with its controls, the construction without association, Gaussian patches."""

from posvit_tf.theory.gaussian import gaussian
from posvit_tf.theory.processes import realistic
from posvit_tf.theory.settings import SETTINGS, Setting
from posvit_tf.theory.transfer import existence, transfer_errors

TINY = Setting(**SETTINGS["tiny"] | dict(steps=150))


def test_a_frozen_matrix_needs_few_samples():
    source = realistic(TINY, seed=0)
    errors = transfer_errors(TINY, source.A, source.data, (16,), seed=0)
    assert set(errors) == {"frozen", "scratch", "uniform", "oracle", "untrained", "logistic"}
    assert errors["frozen"][0] <= 0.02 and errors["oracle"][0] <= 0.02
    assert errors["scratch"][0] >= 0.04 and errors["logistic"][0] >= 0.04
    assert errors["frozen"][0] < errors["uniform"][0]
    assert 0.2 < errors["untrained"][0] < 0.8


def test_generalisation_needs_no_association():
    found = existence(TINY, seed=0)
    assert found["associated"]["overlap"] == 1 and found["shifted"]["overlap"] == 0
    assert found["shifted"]["test_error"] <= found["associated"]["test_error"] + 0.002 <= 0.012


def test_gaussian_near_linear_generalises():
    setting = Setting(D=16, C=4, d=8, N=4000, q=0.0, steps=60, eta_A=5.0, nu=3.0)
    last = gaussian(setting, linear=100.0, seed=0).trace[-1]
    assert last["test_error"] <= 0.05 and last["cosine"] > 0.99

"""The written-out gradient against autodiff of the Keras model, and descent."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from posvit_tf.errors import UserError
from posvit_tf.models.simplified import SimplifiedViT, logistic_loss
from posvit_tf.theory.dynamics import Form, Rates, descend, gradient, outputs, update

N, D, d = 40, 12, 7


def problem(sigma_A=1.5, v_std=0.1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D, d)).astype(np.float32)
    y = np.where(rng.random(N) < 0.5, -1, 1).astype(np.float32)
    v = (v_std * rng.standard_normal(d)).astype(np.float32)
    A = rng.standard_normal((D, D)).astype(np.float32)
    np.fill_diagonal(A, sigma_A)
    return X, y, v, A


@pytest.mark.parametrize("p", [3, 5, 7])
@pytest.mark.parametrize("scales", [(12.0, 1 / 12, 1.0), (4.0, 0.4, 7**-0.5)])
def test_gradient_is_autodiff_of_the_keras_model(p, scales):
    X, y, v, A = problem()
    scale, output_scale, score_scale = scales
    model = SimplifiedViT(p, 0.1, 1.5, scale, output_scale, score_scale)
    model.build(X.shape)
    model.set_weights([v, A])
    with tf.GradientTape() as tape:
        F = model(X)
        risk = tf.reduce_mean(logistic_loss(y[:, None], F))
    wanted = tape.gradient(risk, [model.v.value, model.off_diagonal.value])
    form = Form(p, 0.1, scale, output_scale, score_scale)
    found_risk, *found = gradient(*map(tf.constant, (X, y, v, A)), form)
    assert found_risk.numpy() == pytest.approx(risk.numpy(), rel=1e-5)
    for mine, autodiff in zip(found, wanted, strict=True):
        assert np.abs(autodiff).max() > 1e-4  # there is something to compare
        assert np.abs(mine - autodiff).max() <= 1e-5 * np.abs(autodiff).max()
    np.testing.assert_allclose(outputs(X @ v, A, form), F[:, 0], rtol=1e-4, atol=1e-5)


def test_steps_follow_the_rates_until_the_clips():
    X, y, v, A = map(tf.constant, problem())
    form = Form(3, 0.1, 12.0, 1 / 12, 1.0)
    _, grad_v, grad_A = gradient(X, y, v, A, form)
    next_v, next_A, _ = update(X, y, v, A, form, Rates(1e-4, 1e-3))
    np.testing.assert_allclose(next_v - v, -1e-4 * grad_v, atol=1e-7)
    np.testing.assert_allclose(next_A - A, -1e-3 * grad_A, atol=1e-7)
    next_v, next_A, _ = update(X, y, v, A, form, Rates(1e4, 1e6))
    assert np.linalg.norm(next_v - v) == pytest.approx(0.01, rel=1e-3)
    assert np.abs(next_A - A).max() == pytest.approx(0.2, rel=1e-3)
    cosine = -np.vdot(next_A - A, grad_A) / np.linalg.norm(next_A - A) / np.linalg.norm(grad_A)
    assert cosine == pytest.approx(1, abs=1e-4)


def test_descent_lowers_the_risk_and_yields_every_state():
    X, y, v, A = problem(v_std=0.01)
    form = Form(3, 0.1, 12.0, 1 / 12, 1.0)
    states = list(descend(itertools.repeat((X, y), 31), v, A, form, Rates(0.01, 1.0)))
    risks = [state.risk for state in states]
    assert len(states) == 31 and (np.diff(risks) < 0).all()
    assert (states[0].v == v).all() and (np.diag(states[-1].A) == 1.5).all()


def test_a_path_holds_v():
    X, y, v, A = problem()
    path = np.stack([v, 2 * v, 3 * v])
    form = Form(3, 0.1, 12.0, 1 / 12, 1.0)
    states = list(descend(itertools.repeat((X, y), 3), path, A, form, Rates(1.0, 1.0)))
    assert (np.stack([state.v for state in states]) == path).all()


def test_only_rounding_counts_as_zero():
    z = np.array([[1, -1, 1, -1], [1, -1, 1, -0.999]], np.float32) / 3
    F = outputs(z, np.zeros((4, 4), np.float32), Form(3, 0.1, 4.0, 0.25, 1.0))
    assert F[0] == 0 and F[1] > 0


def test_a_risk_that_is_not_finite_stops_and_names_step_and_rates():
    X, y, v, A = problem()
    samples = [(X, y), (X * np.float32(1e20), y)]
    with pytest.raises(UserError, match="at step 1: lower eta_v=0.1 or eta_A=2"):
        list(descend(samples, v, A, Form(3, 0.1, 12.0, 1 / 12, 1.0), Rates(0.1, 2.0)))


@pytest.mark.parametrize("p", [1, 2, 4])
def test_an_even_power_is_refused(p):
    X, y, v, A = problem()
    with pytest.raises(UserError, match=f"p={p} "):
        list(descend([(X, y)], v, A, Form(p, 0.1, 12.0, 1 / 12, 1.0), Rates(0.1, 2.0)))

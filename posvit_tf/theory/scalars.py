"""The idealised process as its three scalars (paper, section 3).

v = alpha w*, and A holds sigma_A on the diagonal, gamma inside the sets and rho across them. A row
of softmax(t A) then holds three values b, g, r, and with the sums m_l of x over the sets and their
total m

    o_i = s alpha ((b - g) x_i + (g - r) m_{l(i)} + r m)

The entries of A that share gamma also share its gradient: D (C-1) of them, and D (D-C) share rho.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from posvit_tf.theory.dynamics import Form, Rates, power, shorten
from posvit_tf.theory.processes import data_of, form_of, on_feature
from posvit_tf.theory.settings import Setting


class Path(NamedTuple):
    """The scalars and the risk after each number of steps, each (steps + 1,)."""

    alpha: np.ndarray
    gamma: np.ndarray
    rho: np.ndarray
    risk: np.ndarray


def scalar_risk(x, y, sets, alpha, gamma, rho, sigma_A: float, form: Form) -> tf.Tensor:
    """Mean of log(1 + exp(-y F)); x (n, D), y (n,), sets (D, L) one-hot."""
    D, L = sets.shape
    C = D // L
    scores = form.score_scale * tf.stack([tf.constant(sigma_A), gamma, rho])
    b, g, r = tf.unstack(tf.exp(scores - tf.reduce_max(scores)))
    total = b + (C - 1) * g + (D - C) * r
    b, g, r = b / total, g / total, r / total
    own = tf.matmul(tf.matmul(x, sets), sets, transpose_b=True)  # (n,D) m_{l(i)}
    everywhere = tf.reduce_sum(x, axis=1, keepdims=True)  # (n,1)
    o = form.scale * alpha * ((b - g) * x + (g - r) * own + r * everywhere)  # (n,D)
    F = form.output_scale * tf.reduce_sum(o * (power(o, form.p - 1) + form.nu), axis=1)
    return tf.reduce_mean(tf.nn.softplus(-y * F))


@tf.function(autograph=False)
def scalar_update(x, y, sets, values, sigma_A: float, form: Form, rates: Rates):
    """One step of (alpha, gamma, rho), and the risk before it."""
    D, L = sets.shape
    C = D // L
    with tf.GradientTape() as tape:
        tape.watch(values)
        risk = scalar_risk(x, y, sets, *tf.unstack(values), sigma_A, form)
    gradient = tape.gradient(risk, values)
    dv = rates.v * gradient[:1]
    dA = rates.A * gradient[1:] / tf.constant([D * (C - 1.0), D * (D - C)])
    dv = shorten(dv, tf.norm(dv), rates.clip_v)
    dA = shorten(dA, tf.reduce_max(tf.abs(dA)), rates.clip_A)
    return values - tf.concat([dv, dA], axis=0), risk


def idealised_scalars(setting: Setting, seed: int) -> Path:
    """`processes.idealised(setting, seed)` on the same samples, as three numbers."""
    rng = np.random.default_rng(seed)
    data = on_feature(data_of(setting, rng))
    sets = tf.one_hot(data.partition, setting.L)
    rates = Rates(setting.eta_v, setting.eta_A)
    values = tf.constant([setting.omega, 0.0, 0.0])
    form = form_of(setting)
    path = []
    for X, y in data.dataset(setting.N, seed).take(setting.steps + 1):
        following, risk = scalar_update(X[..., 0], y, sets, values, setting.sigma_A, form, rates)
        path.append((*values.numpy(), float(risk)))
        values = following
    return Path(*np.array(path).T)

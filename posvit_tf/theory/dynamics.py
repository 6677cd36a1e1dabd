"""Gradient descent on the simplified ViT with its gradient written out (paper, sections 3 and 4).

With z = X v, S = softmax(t A), o = s z S^T and F = c sum_i act(o_i), act(x) = x^p + nu x, the
gradient of the mean of log(1 + exp(-y F)) is

    G = -(c/N) y sigmoid(-y F) act'(o)
    grad v = X^T (s G S)
    grad A = t S * (M - rowsum(M * S)), M = s G^T z, diagonal 0

so that a step is five products, X v, z S^T, G S, G^T z and X^T dz, and S X is never formed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from posvit_tf.errors import UserError


class Form(NamedTuple):
    """The fixed numbers of F(X) = c sum_i act(s sum_j softmax(t A)_ij <v, X_j>).

    act(x) = x^p + nu x.
    """

    p: int
    nu: float
    scale: float  # s, the paper's D
    output_scale: float  # c
    score_scale: float  # t, 1 or 1/sqrt(d)


class Rates(NamedTuple):
    """Step lengths of v and A, and the longest steps: |dv| <= clip_v, max |dA_ij| <= clip_A.

    A rate of 0 holds its parameter. The clips shorten a step and keep its direction; the gradient of
    x^p is not bounded, so that without them a step can leave the region where the rates hold.
    """

    v: float
    A: float
    clip_v: float = 0.01
    clip_A: float = 0.2


class State(NamedTuple):
    """The parameters and their risk."""

    v: np.ndarray  # (d,)
    A: np.ndarray  # (D, D)
    risk: float


def power(x: tf.Tensor, exponent: int) -> tf.Tensor:
    """x^exponent by products, as tf.pow costs more than the matrix products here.

    Raises:
        UserError: the exponent p - 1 is not even, or is 0.
    """
    if exponent < 2 or exponent % 2:
        raise UserError(f"p={exponent + 1} is not an odd number of 3 or more: set p to 3, 5 or 7")
    square = tf.square(x)
    result = square
    for _ in range(exponent // 2 - 1):
        result *= square
    return result


@tf.function(autograph=False, reduce_retracing=True)
def outputs(z: tf.Tensor, A: tf.Tensor, form: Form) -> tf.Tensor:
    """F (n,) from z = <v, X_j> (n, D) and A (D, D); 0 where only rounding keeps it from 0."""
    S = tf.nn.softmax(form.score_scale * A)
    o = form.scale * tf.matmul(z, S, transpose_b=True)  # (n,D)
    terms = o * (power(o, form.p - 1) + form.nu)  # (n,D)
    F = form.output_scale * tf.reduce_sum(terms, axis=1)
    size = form.output_scale * tf.reduce_sum(tf.abs(terms), axis=1)
    return tf.where(tf.abs(F) <= 1e-6 * size, 0.0, F)


def gradient(
    X: tf.Tensor, y: tf.Tensor, v: tf.Tensor, A: tf.Tensor, form: Form
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The risk, its gradient in v (d,) and in the off-diagonal A (D, D); see the head of this file.

    Args:
        X: patches (N, D, d).
        y: labels (N,), -1 or +1.
        v: (d,).
        A: (D, D), its diagonal is held.
        form: the fixed numbers of the model.
    """
    N, D, d = X.shape
    flat = tf.reshape(X, (N * D, d))
    S = tf.nn.softmax(form.score_scale * A)
    z = tf.reshape(tf.linalg.matvec(flat, v), (N, D))
    o = form.scale * tf.matmul(z, S, transpose_b=True)  # (N,D)
    even = power(o, form.p - 1)
    F = form.output_scale * tf.reduce_sum(o * (even + form.nu), axis=1)  # (N,)
    slope = -(form.output_scale / N) * y * tf.sigmoid(-y * F)  # (N,)
    G = slope[:, None] * (form.p * even + form.nu)  # (N,D)
    dz = form.scale * tf.matmul(G, S)  # (N,D)
    grad_v = tf.linalg.matvec(flat, tf.reshape(dz, (N * D,)), transpose_a=True)  # (d,)
    M = form.scale * tf.matmul(G, z, transpose_a=True)  # (D,D)
    grad_A = form.score_scale * S * (M - tf.reduce_sum(M * S, axis=1, keepdims=True))
    grad_A = tf.linalg.set_diag(grad_A, tf.zeros(D))
    return tf.reduce_mean(tf.nn.softplus(-y * F)), grad_v, grad_A


def shorten(step: tf.Tensor, length: tf.Tensor, limit: float) -> tf.Tensor:
    """`step` times min(1, limit / length)."""
    return step * tf.minimum(1.0, limit / tf.maximum(length, 1e-30))


@tf.function(autograph=False)
def update(X, y, v, A, form: Form, rates: Rates):
    """One step of gradient descent: v, A and the risk before it."""
    risk, grad_v, grad_A = gradient(X, y, v, A, form)
    dv = rates.v * grad_v
    dA = rates.A * grad_A
    v -= shorten(dv, tf.norm(dv), rates.clip_v)
    A -= shorten(dA, tf.reduce_max(tf.abs(dA)), rates.clip_A)
    return v, A, risk


def descend(
    samples: Iterable, v: np.ndarray, A: np.ndarray, form: Form, rates: Rates
) -> Iterator[State]:
    """Gradient descent: the state and its risk on each element of `samples`, a step between two.

    `itertools.repeat((X, y), steps + 1)` is full-batch descent on the empirical risk;
    `Spatial.dataset(n, seed).take(steps + 1)` follows the population risk.

    Args:
        samples: of patches X (N, D, d) and labels y (N,), all of one shape.
        v: the start (d,), or the path (steps + 1, d) on which v is held.
        A: the start (D, D); its diagonal is held.
        form: the fixed numbers of the model.
        rates: step lengths.

    Raises:
        UserError: the risk is not finite.
    """
    path = tf.constant(v) if v.ndim == 2 else None
    v, A = tf.constant(v), tf.constant(A)
    for number, (X, y) in enumerate(samples):
        if path is not None:
            v = path[number]
        next_v, next_A, risk = update(X, y, v, A, form, rates)
        state = State(v.numpy(), A.numpy(), float(risk))
        if not np.isfinite(state.risk):
            raise UserError(
                f"the risk is {state.risk} at step {number}: "
                f"lower eta_v={rates.v:g} or eta_A={rates.A:g}, or omega if that is the first step"
            )
        yield state
        v, A = next_v, next_A

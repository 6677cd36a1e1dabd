"""Generalisation without association: Gaussian patches, a convolution's label (paper, fig. 2)."""

import itertools
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from posvit_tf.data.spatial import Gaussian
from posvit_tf.theory import association
from posvit_tf.theory.baselines import error_rate
from posvit_tf.theory.dynamics import Rates, descend, outputs
from posvit_tf.theory.processes import (
    RECORDS,
    START_STD,
    TEST_SAMPLES,
    data_of,
    form_of,
    start_A,
    start_v,
)
from posvit_tf.theory.settings import Setting


@dataclass(frozen=True)
class GaussianRun:
    """What a run on Gaussian patches ended with, and the way there."""

    v: np.ndarray  # (d,)
    A: np.ndarray  # (D, D)
    data: Gaussian
    trace: list[dict[str, float]]  # step, risk, test_error, overlap, cosine
    seconds: float


def gaussian(setting: Setting, linear: float, seed: int) -> GaussianRun:
    """Full-batch descent on N samples of `Gaussian`, v and A from Gaussian starts.

    Args:
        setting: the numbers of the run; q and sigma have no part in it.
        linear: weight of u in the label's phi(u) = u^3 + linear u.
        seed: of the data and the starts.
    """
    rng = np.random.default_rng(seed)
    spatial = data_of(setting, rng)
    data = Gaussian(spatial.partition, spatial.feature, linear)
    samples = tuple(tf.constant(array) for array in data.sample(setting.N, rng))
    X_test, y_test = data.sample(TEST_SAMPLES, rng)
    v, A = start_v(setting, rng), start_A(setting, START_STD, rng)
    form, rates = form_of(setting), Rates(setting.eta_v, setting.eta_A)

    began = time.perf_counter()
    every = max(1, setting.steps // RECORDS)
    trace = []
    repeated = itertools.repeat(samples, setting.steps + 1)
    for step, state in enumerate(descend(repeated, v, A, form, rates)):
        if step % every == 0 or step == setting.steps:
            F = outputs(X_test @ state.v, state.A, form).numpy()
            trace.append(
                {
                    "step": step,
                    "risk": state.risk,
                    "test_error": error_rate(F, y_test),
                    "overlap": association.overlap(state.A, data.partition, rng),
                    "cosine": float(data.kernel @ state.v / np.linalg.norm(state.v)),
                }
            )
    return GaussianRun(state.v, state.A, data, trace, time.perf_counter() - began)

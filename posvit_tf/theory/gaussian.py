"""Generalisation without association: Gaussian patches, a convolution's label (paper, fig. 2)."""

import itertools
import time

import numpy as np
import tensorflow as tf

from posvit_tf.data.spatial import Gaussian
from posvit_tf.theory import association
from posvit_tf.theory.baselines import error_rate
from posvit_tf.theory.dynamics import Rates, State, descend, outputs
from posvit_tf.theory.processes import (
    START_STD,
    TEST_SAMPLES,
    Run,
    data_of,
    form_of,
    start_A,
    start_v,
    traced,
)
from posvit_tf.theory.settings import Setting


def gaussian(setting: Setting, linear: float, seed: int) -> Run:
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

    def record(state: State) -> dict[str, float]:
        F = outputs(X_test @ state.v, state.A, form).numpy()
        return {
            "risk": state.risk,
            "test_error": error_rate(F, y_test),
            "overlap": association.overlap(state.A, data.partition, rng),
            "cosine": float(data.kernel @ state.v / np.linalg.norm(state.v)),
        }

    states = descend(itertools.repeat(samples, setting.steps + 1), v, A, form, rates)
    last, trace = traced(states, setting.steps, record)
    return Run(last.v, last.A, data, trace, time.perf_counter() - began)

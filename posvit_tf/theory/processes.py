"""The paper's three processes as runs: realistic, idealised and semi-idealised (section 3).

All are `dynamics.descend`; they differ in the samples and in what is held:

    realistic        N samples, v and A from Gaussian starts
    idealised        fresh samples a step, v = alpha w* and A_ij = 0 at the start. v stays on w*, so
                     that patches of one number, x_j = <w*, X_j>, are all that is needed
    semi-idealised   fresh samples a step, v held at alpha(t) w* of a realistic run, A from 0
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from posvit_tf.data.spatial import (
    Gaussian,
    Projected,
    Spatial,
    contiguous_partition,
    random_partition,
    unit_vector,
)
from posvit_tf.theory import association
from posvit_tf.theory.baselines import error_rate
from posvit_tf.theory.dynamics import Form, Rates, State, descend, outputs
from posvit_tf.theory.settings import Setting

START_STD = 0.01  # of the off-diagonal of A in the realistic process
TEST_SAMPLES = 5_000
RECORDS = 50  # measurements a run


@dataclass(frozen=True)
class Run:
    """What a run ended with, and the way there."""

    v: np.ndarray  # (d,)
    A: np.ndarray  # (D, D)
    data: Spatial | Gaussian
    trace: list[dict[str, float]]  # step, the risk descended, and what was measured
    seconds: float
    alphas: np.ndarray | None = None  # (steps + 1,) <v, w*> after each number of steps


def form_of(setting: Setting) -> Form:
    """The model's fixed numbers."""
    return Form(setting.p, setting.nu, float(setting.D), setting.output_scale, setting.score_scale)


def data_of(setting: Setting, rng: np.random.Generator) -> Spatial:
    """The distribution: a partition of the setting's kind, and a w* drawn by `rng`."""
    if setting.partition == "random":
        partition = random_partition(setting.D, setting.C, rng)
    else:
        partition = contiguous_partition(setting.D, setting.C)
    return Spatial(partition, unit_vector(setting.d, rng), setting.q, setting.sigma)


def on_feature(data: Spatial) -> Spatial:
    """The same distribution seen by a v on w*: patches of one number, without noise."""
    return replace(data, feature=np.ones(1, np.float32), sigma=0.0)


def start_v(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    """v (d,): Gaussian of standard deviation omega."""
    return setting.omega * rng.standard_normal(setting.d, dtype=np.float32)


def start_A(setting: Setting, std: float, rng: np.random.Generator) -> np.ndarray:
    """A (D, D): Gaussian of `std` off the diagonal, sigma_A on it."""
    A = std * rng.standard_normal((setting.D, setting.D), dtype=np.float32)
    np.fill_diagonal(A, setting.sigma_A)
    return A


def measure(
    v: np.ndarray,
    A: np.ndarray,
    form: Form,
    test: Projected,
    partition: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Test risk and error, alpha = <v, w*>, its cosine, gamma, rho, overlap; it alone reads the sets.

    Args:
        v: (d,). A: (D, D). form: the fixed numbers of the model.
        test: samples to measure on.
        partition: (D,) the set of each patch.
        rng: breaks ties of scores.
    """
    alpha = float(test.feature @ v)
    gamma, rho = association.tied_values(A, partition)
    F = outputs(test.project(v), A, form).numpy()
    return {
        "test_risk": float(np.mean(np.logaddexp(0, -test.y * F))),
        "test_error": error_rate(F, test.y),
        "alpha": alpha,
        "cosine": alpha / max(float(np.linalg.norm(v)), 1e-30),
        "gamma": gamma,
        "rho": rho,
        "overlap": association.overlap(A, partition, rng),
    }


def traced(
    states: Iterable[State], steps: int, record: Callable[[State], dict[str, float]]
) -> tuple[State, list[dict[str, float]]]:
    """The last of the states, and the records, by step, of the first, the last and some 50 in all.

    Args:
        states: steps + 1 of them.
        steps: between the first and the last.
        record: what is measured of a state.
    """
    every = max(1, steps // RECORDS)
    trace = []
    for step, state in enumerate(states):
        if step % every == 0 or step == steps:
            trace.append({"step": step, **record(state)})
    return state, trace


def follow(
    samples: Iterable,
    v: np.ndarray,
    A: np.ndarray,
    setting: Setting,
    rates: Rates,
    data: Spatial,
    rng: np.random.Generator,
    fresh: bool,
) -> Run:
    """Descends for `setting.steps` steps and measures the first, the last and some 50 states.

    Args:
        samples, v, A, rates: as `dynamics.descend` takes them.
        setting: gives the form and the number of steps.
        data: the distribution to measure on.
        rng: draws the test samples.
        fresh: whether each step has new samples: then the risk is the population's, on test samples.
    """
    began = time.perf_counter()
    form = form_of(setting)
    test = data.projected(TEST_SAMPLES, rng)
    alphas = []

    def states() -> Iterator[State]:
        for state in descend(samples, v, A, form, rates):
            alphas.append(float(data.feature @ state.v))
            yield state

    def record(state: State) -> dict[str, float]:
        found = measure(state.v, state.A, form, test, data.partition, rng)
        return {"risk": found["test_risk"] if fresh else state.risk, **found}

    last, trace = traced(states(), setting.steps, record)
    return Run(last.v, last.A, data, trace, time.perf_counter() - began, np.array(alphas))


def realistic(setting: Setting, seed: int) -> Run:
    """Full-batch descent on N samples from Gaussian starts of v and A (claim 4.2)."""
    rng = np.random.default_rng(seed)
    data = data_of(setting, rng)
    samples = tuple(tf.constant(array) for array in data.sample(setting.N, rng))
    v, A = start_v(setting, rng), start_A(setting, START_STD, rng)
    return follow(
        itertools.repeat(samples, setting.steps + 1),
        v,
        A,
        setting,
        Rates(setting.eta_v, setting.eta_A),
        data,
        rng,
        fresh=False,
    )


def idealised(setting: Setting, seed: int) -> Run:
    """Descent on the population risk from v = omega w* and A_ij = 0 (claim 4.1)."""
    rng = np.random.default_rng(seed)
    data = on_feature(data_of(setting, rng))
    return follow(
        data.dataset(setting.N, seed).take(setting.steps + 1),
        np.array([setting.omega], np.float32),
        start_A(setting, 0.0, rng),
        setting,
        Rates(setting.eta_v, setting.eta_A),
        data,
        rng,
        fresh=True,
    )


def semi_idealised(setting: Setting, seed: int) -> Run:
    """Descent of A on the population risk, v held at alpha(t) w* of `realistic(setting, seed)`."""
    first = realistic(setting, seed)
    rng = np.random.default_rng(seed)
    data = on_feature(first.data)
    return follow(
        data.dataset(setting.N, seed).take(setting.steps + 1),
        first.alphas[:, None].astype(np.float32),
        start_A(setting, 0.0, rng),
        setting,
        Rates(0.0, setting.eta_A),
        data,
        rng,
        fresh=True,
    )


PROCESSES = {"realistic": realistic, "idealised": idealised, "semi_idealised": semi_idealised}

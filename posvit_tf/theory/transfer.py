"""What a frozen A is worth: transfer to a new feature, and claim 3.2 (paper, section 4)."""

import itertools
from dataclasses import replace

import numpy as np
import tensorflow as tf

from posvit_tf.data.spatial import Projected, Spatial, unit_vector
from posvit_tf.theory import association
from posvit_tf.theory.baselines import block_attention, error_rate, fitted_linear_error
from posvit_tf.theory.dynamics import Rates, descend, outputs
from posvit_tf.theory.processes import START_STD, TEST_SAMPLES, data_of, form_of, start_A, start_v
from posvit_tf.theory.settings import Setting

STRENGTH = 10.0  # A_ij of a matrix made by hand, enough to outweigh the rest of its row


def learn(
    X: np.ndarray, y: np.ndarray, A: np.ndarray, setting: Setting, eta_A: float, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """v (d,) and A (D, D) after `setting.steps` steps on X (n, D, d), y (n,)."""
    samples = (tf.constant(X), tf.constant(y))
    rates = Rates(setting.eta_v, eta_A)
    for state in descend(
        itertools.repeat(samples, setting.steps + 1), v, A, form_of(setting), rates
    ):
        last = state
    return last.v, last.A


def model_error(v: np.ndarray, A: np.ndarray, setting: Setting, test: Projected) -> float:
    """Error of the model with v and A on `test`."""
    return error_rate(outputs(test.project(v), A, form_of(setting)).numpy(), test.y)


def transfer_errors(
    setting: Setting, A: np.ndarray, source: Spatial, sizes: tuple[int, ...], seed: int
) -> dict[str, list[float]]:
    """Test errors on a new feature w* with the sets of `source`, by method and number of samples.

    frozen      v is learned, A is held
    scratch     v and A are learned
    uniform     v is learned, attention is uniform
    oracle      v is learned, A is made from the true sets
    untrained   A is held and v is random: what `frozen` gains over it comes from the samples
    logistic    regression on the patches

    Args:
        setting: gives the rates and steps.
        A: the learned matrix (D, D).
        source: the distribution on which A was learned.
        sizes: numbers of samples n.
        seed: of the new feature, the samples and the starts.
    """
    rng = np.random.default_rng([seed, 1])  # not the stream that drew the source's feature
    data = replace(source, feature=unit_vector(setting.d, rng))
    test = data.projected(TEST_SAMPLES, rng)
    X_test, y_test = data.sample(TEST_SAMPLES, rng)
    uniform = np.zeros_like(A)
    oracle = block_attention(source.partition, STRENGTH, setting.sigma_A, shift=0)

    errors = {
        name: [] for name in ("frozen", "scratch", "uniform", "oracle", "untrained", "logistic")
    }
    for n in sizes:
        X, y = data.sample(n, rng)
        v = start_v(setting, rng)
        start = start_A(setting, START_STD, rng)
        for name, matrix, eta_A in (
            ("frozen", A, 0.0),
            ("scratch", start, setting.eta_A),
            ("uniform", uniform, 0.0),
            ("oracle", oracle, 0.0),
        ):
            learned = learn(X, y, matrix, setting, eta_A, v)
            errors[name].append(model_error(*learned, setting, test))
        errors["untrained"].append(model_error(v, A, setting, test))
        errors["logistic"].append(fitted_linear_error(X, y, X_test, y_test))
    return errors


def existence(setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """Claim 3.2: v learned under the associated A and under one with no association.

    Returns:
        `associated` and `shifted`, each with `test_error` and `overlap`.
    """
    rng = np.random.default_rng(seed)
    data = data_of(setting, rng)
    X, y = data.sample(setting.N, rng)
    test = data.projected(TEST_SAMPLES, rng)
    v = start_v(setting, rng)
    found = {}
    for shift, name in enumerate(("associated", "shifted")):
        A = block_attention(data.partition, STRENGTH, setting.sigma_A, shift)
        learned = learn(X, y, A, setting, 0.0, v)
        found[name] = {
            "test_error": model_error(*learned, setting, test),
            "overlap": association.overlap(A, data.partition, rng),
        }
    return found

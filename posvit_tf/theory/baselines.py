"""What a run has to beat, and an attention without association (paper, sections 1 and 4)."""

from functools import reduce

import numpy as np
from sklearn.linear_model import LogisticRegression

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # inverse regularisation, tried on held-out data


def vote_error(own: int, others: np.ndarray) -> float:
    """P(own + T < 0) + P(own + T = 0) / 2; `others` (2r+1,) holds P(T = -r), ..., P(T = r)."""
    total = own + np.arange(len(others)) - len(others) // 2
    return float(others[total < 0].sum() + others[total == 0].sum() / 2)


def linear_error(D: int, C: int, q: float) -> float:
    """Error of the majority vote sign(sum_j <w*, X_j>), exact; a tie counts one half.

    A linear rule cannot know which set is the signal's and all patches are alike, so that equal
    weights are its best: no generalised linear rule errs less. With kappa = q D / C^2 the error is
    about Q(1/sqrt(kappa)), Q the upper tail of the standard Gaussian.

    Args:
        D: patches.
        C: patches a set.
        q: probability that a patch outside the signal set carries a sign.
    """
    return vote_error(C, reduce(np.convolve, [np.array([q / 2, 1 - q, q / 2])] * (D - C)))


def set_aware_error(D: int, C: int, q: float) -> float:
    """Error of sign f*(X), which knows the sets, exact; a tie counts one half."""
    one_set = reduce(np.convolve, [np.array([q / 2, 1 - q, q / 2])] * C)
    vote = np.where(np.abs(np.arange(-C, C + 1)) > 0.9 * C, one_set, 0.0)
    vote[C] = 1 - vote.sum()  # a set below the threshold adds nothing
    return vote_error(C, reduce(np.convolve, [vote] * (D // C - 1)))


def error_rate(F: np.ndarray, y: np.ndarray) -> float:
    """Share of samples with y F < 0, those with F = 0 counted one half."""
    return float(np.mean(y * F < 0) + np.mean(F == 0) / 2)


def fitted_linear_error(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> float:
    """Test error of logistic regression on the flattened patches.

    Its strength is chosen on a held-out quarter; then it is fitted to all.

    Args:
        X, y: training patches (N, D, d) and labels (N,); the last quarter is held out.
        X_test, y_test: test patches and labels.
    """
    X, X_test = X.reshape(len(X), -1), X_test.reshape(len(X_test), -1)
    kept = len(X) - len(X) // 4

    def fit(strength, n):
        return LogisticRegression(C=strength, max_iter=200).fit(X[:n], y[:n])

    held_out = [error_rate(fit(s, kept).decision_function(X[kept:]), y[kept:]) for s in STRENGTHS]
    best = STRENGTHS[int(np.argmin(held_out))]
    return error_rate(fit(best, len(X)).decision_function(X_test), y_test)


def block_attention(
    partition: np.ndarray, strength: float, sigma_A: float, shift: int
) -> np.ndarray:
    """A (D, D) in which set l attends to set l + shift.

    shift = 0 is the association. With shift = 1 no top score of a position lies in its own set, and
    yet F, which sums over all positions, is the same once `strength` outweighs the fixed diagonal
    (claim 3.2).

    Args:
        partition: (D,) the set of each patch.
        strength: A_ij for j in the set attended to; 0 elsewhere.
        sigma_A: the fixed diagonal.
        shift: 0 or 1.
    """
    L = partition.max() + 1
    attended = (partition[:, None] + shift) % L == partition
    A = np.where(attended, strength, 0.0).astype(np.float32)
    np.fill_diagonal(A, sigma_A)
    return A

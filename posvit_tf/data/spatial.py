"""Spatially structured data (paper, section 1): patches in hidden sets, one set carries the label.

Also the Gaussian patches of the paper's figure 2, where a convolution gives the label.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posvit_tf.data.sets import check_sets
from posvit_tf.errors import UserError


def grid_shape(D: int) -> tuple[int, int]:
    """(rows, cols) with rows x cols = D, rows <= cols, the most nearly square."""
    rows = max(r for r in range(1, math.isqrt(D) + 1) if D % r == 0)
    return rows, D // rows


def contiguous_partition(D: int, C: int) -> np.ndarray:
    """Blocks of C neighbours on the grid of `grid_shape(D)`, the most nearly square that tile it.

    Where the grid is one row (D prime to any other shape) the blocks are runs of C in order.

    Args:
        D: patches.
        C: patches a set.

    Returns:
        (D,) int, the set of each patch; sets are numbered row by row.
    """
    check_sets(D, C)
    rows, cols = grid_shape(D)
    heights = [h for h in range(1, C + 1) if C % h == 0 and rows % h == 0 and cols % (C // h) == 0]
    height = min(heights, key=lambda h: (abs(h - C // h), h))  # on a tie the flat block
    width = C // height
    row, col = np.divmod(np.arange(D), cols)
    return (row // height) * (cols // width) + col // width


def random_partition(D: int, C: int, rng: np.random.Generator) -> np.ndarray:
    """(D,) int, the set of each patch: L = D / C sets of C patches drawn at random."""
    return rng.permutation(np.arange(D) // (D // check_sets(D, C)))


def unit_vector(d: int, rng: np.random.Generator) -> np.ndarray:
    """(d,) float32, uniform on the sphere."""
    w = rng.standard_normal(d)
    return (w / np.linalg.norm(w)).astype(np.float32)


def target(x: np.ndarray, partition: np.ndarray) -> np.ndarray:
    """f*(X) = sum_l Thr_{.9C}(sum_{i in S_l} <w*, X_i>), Thr_c(z) = z if |z| > c else 0.

    Args:
        x: <w*, X_i> (n, D).
        partition: the set of each patch (D,).

    Returns:
        (n,). Its sign is the label, 0 where the sets tie.
    """
    sums = x @ np.eye(partition.max() + 1)[partition]  # (n,L)
    C = len(partition) // (partition.max() + 1)
    return np.where(np.abs(sums) > 0.9 * C, sums, 0.0).sum(axis=1)


@dataclass(frozen=True)
class Projected:
    """Samples known by their products with any v, at D numbers each where patches cost D*d.

    <v, X_j> = <v, w*> x_j + |v - <v, w*> w*| sigma g_j is exact.
    """

    x: np.ndarray  # (n, D) <w*, X_j>
    g: np.ndarray  # (n, D) standard Gaussian
    y: np.ndarray  # (n,) -1 or +1
    feature: np.ndarray  # (d,) w*
    sigma: float

    def project(self, v: np.ndarray) -> np.ndarray:
        """<v, X_j> (n, D) for v (d,)."""
        alpha = self.feature @ v
        return alpha * self.x + np.linalg.norm(v - alpha * self.feature) * self.sigma * self.g


@dataclass(frozen=True)
class Spatial:
    """X_j = x_j w* + sigma (g_j - <g_j, w*> w*), g_j standard Gaussian (paper, section 1).

    In one set, drawn at random, x_j = y; elsewhere x_j = +1 or -1 with probability q/2 each, or 0.

    Raises:
        UserError: q or sigma out of range, w* not a unit vector.
    """

    partition: np.ndarray  # (D,) the set of each patch
    feature: np.ndarray  # (d,) w*
    q: float
    sigma: float

    def __post_init__(self):
        if not 0 <= self.q <= 1:
            raise UserError(f"q={self.q} is not a probability: set q between 0 and 1")
        if not 0 <= self.sigma < math.inf:
            raise UserError(f"sigma={self.sigma} is not a noise level: set sigma to 0 or more")
        norm = np.linalg.norm(self.feature)
        if not math.isclose(norm, 1, abs_tol=1e-5):
            raise UserError(f"the feature w* has length {norm:.4g}, not 1: divide it by its length")

    def signs(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """x_j = <w*, X_j> (n, D) and labels y (n,), both float32."""
        D = len(self.partition)
        y = rng.choice(np.array([-1, 1], np.float32), n)
        u = rng.random((n, D), dtype=np.float32)
        x = (u < self.q / 2).astype(np.float32) - (u >= 1 - self.q / 2)
        signal = rng.integers(self.partition.max() + 1, size=n)  # (n,)
        return np.where(self.partition == signal[:, None], y[:, None], x), y

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Patches X (n, D, d) and labels y (n,), both float32."""
        x, y = self.signs(n, rng)
        X = rng.standard_normal((*x.shape, len(self.feature)), dtype=np.float32)  # (n,D,d)
        X *= np.float32(self.sigma)
        X += (x - X @ self.feature)[..., None] * self.feature
        return X, y

    def projected(self, n: int, rng: np.random.Generator) -> Projected:
        """n samples for measuring a model, without their patches."""
        x, y = self.signs(n, rng)
        g = rng.standard_normal(x.shape, dtype=np.float32)
        return Projected(x, g, y, self.feature, self.sigma)

    def dataset(self, batch_size: int, seed: int) -> "tf.data.Dataset":  # noqa: F821
        """Endless fresh samples: X (batch_size, D, d) and y (batch_size,), both float32.

        Gradient steps on it follow the population risk.
        """
        # Not at the top of the file: settings are checked with it before TensorFlow is loaded.
        import tensorflow as tf

        shape = (batch_size, len(self.partition), len(self.feature))

        def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            rng = np.random.default_rng(seed)
            while True:
                yield self.sample(batch_size, rng)

        signature = (tf.TensorSpec(shape, tf.float32), tf.TensorSpec((batch_size,), tf.float32))
        return tf.data.Dataset.from_generator(batches, output_signature=signature)


@dataclass(frozen=True)
class Gaussian:
    """X_j standard Gaussian, y = sign sum_l phi(u_l), u_l = sum_{i in S_l} <w, X_i> / sqrt(C).

    phi(u) = u^3 + linear u. A convolution whose window is a set gives the label. `linear` = 0 is
    the cubic network of the paper's figure 2; a large one leaves a label that hardly depends on the
    sets.
    """

    partition: np.ndarray  # (D,) the set of each patch
    kernel: np.ndarray  # (d,) w, a unit vector
    linear: float

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Patches X (n, D, d) and labels y (n,), both float32."""
        D = len(self.partition)
        L = self.partition.max() + 1
        X = rng.standard_normal((n, D, len(self.kernel)), dtype=np.float32)  # (n,D,d)
        u = (X @ self.kernel) @ np.eye(L, dtype=np.float32)[self.partition]  # (n,L)
        u *= math.sqrt(L / D)
        y = np.where((u**3 + self.linear * u).sum(axis=1) >= 0, 1, -1)
        return X, y.astype(np.float32)

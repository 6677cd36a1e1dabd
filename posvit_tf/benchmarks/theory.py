"""What a step of gradient descent on the simplified ViT costs, against its five matrix products.

    python -m posvit_tf.benchmarks.theory --json=theory.json

Prints a table over N, D and d: milliseconds a step, CPU milliseconds a step and of the five products
X v, z S^T, G S, G^T z and X^T dz timed one by one in the same run, their ratio, and the memory of the
patches and of the arrays a step makes. Times are the least of several and the ratio is of CPU time,
so that other programs disturb little; give it an idle machine all the same. Ratios have keys as
1000x64x32/step:products.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from posvit_tf.benchmarks import measure
from posvit_tf.theory.dynamics import Form, Rates, update

# (N, D, d)
SIZES = (
    (1000, 32, 16),
    (1000, 64, 32),
    (1000, 64, 128),
    (4000, 64, 32),
    (4000, 128, 32),
    (1000, 256, 32),
    (1000, 512, 32),
    (500, 1024, 32),
)
REPEATS = 20


def least_seconds(functions: list[Callable[[], tf.Tensor]]) -> np.ndarray:
    """(functions, 2), the least seconds and CPU seconds over REPEATS rounds that call all in turn."""
    least = np.full((len(functions), 2), np.inf)
    for _ in range(2 + REPEATS):  # the first rounds trace and warm up
        for i, function in enumerate(functions):
            began = np.array([time.perf_counter(), time.process_time()])
            function().numpy()
            ended = np.array([time.perf_counter(), time.process_time()])
            least[i] = np.minimum(least[i], ended - began)
    return least


def products(X, z, S, G, v) -> list[Callable[[], tf.Tensor]]:
    """The five products of a step, each compiled by itself.

    Args:
        X: patches (N, D, d). z, G: (N, D). S: (D, D). v: (d,).
    """
    N, D, d = X.shape
    flat = tf.reshape(X, (N * D, d))
    column = tf.reshape(z, (N * D,))
    compiled = tf.function(autograph=False)
    pairs = (
        (compiled(lambda a, b: tf.linalg.matvec(a, b)), flat, v),
        (compiled(lambda a, b: tf.matmul(a, b, transpose_b=True)), z, S),
        (compiled(lambda a, b: tf.matmul(a, b)), G, S),
        (compiled(lambda a, b: tf.matmul(a, b, transpose_a=True)), G, z),
        (compiled(lambda a, b: tf.linalg.matvec(a, b, transpose_a=True)), flat, column),
    )
    return [lambda f=f, a=a, b=b: f(a, b) for f, a, b in pairs]


def measured() -> Iterator[tuple]:
    """(N, D, d, step ms, step CPU ms, five products CPU ms, ratio, X MB, other arrays MB) of each size."""
    rng = np.random.default_rng(0)
    for N, D, d in SIZES:
        X = tf.constant(rng.standard_normal((N, D, d), dtype=np.float32))
        z, G = (tf.constant(rng.standard_normal((N, D), dtype=np.float32)) for _ in range(2))
        A = tf.constant(rng.standard_normal((D, D), dtype=np.float32))
        v = tf.constant(0.01 * rng.standard_normal(d, dtype=np.float32))
        y = tf.sign(z[:, 0])
        form, rates = Form(3, 0.1, float(D), 1 / D, 1.0), Rates(2e-3, 1.0)

        def step(X=X, y=y, v=v, A=A, form=form, rates=rates):
            return update(X, y, v, A, form, rates)[2]

        seconds = least_seconds([step, *products(X, z, tf.nn.softmax(A), G, v)])
        (wall, cpu), parts = 1e3 * seconds[0], 1e3 * seconds[1:, 1].sum()
        # z, o, o^2, G, dz, each N D, and S, M, S * M, the gradient and the step of A
        others = 4e-6 * (5 * N * D + 5 * D * D)
        yield N, D, d, wall, cpu, parts, cpu / parts, 4e-6 * N * D * d, others


def main() -> None:
    """Prints the table and writes --json."""
    flags = measure.arguments(__doc__)
    print(measure.machine())
    rows = list(measured())
    head = "N, D, d, step ms, step CPU ms, five products CPU ms, ratio, X MB, other arrays MB"
    measure.table(
        head.split(", "), ((*row[:3], *(f"{number:.2f}" for number in row[3:])) for row in rows)
    )
    measure.write(flags.json, {f"{N}x{D}x{d}/step:products": r[3] for N, D, d, *r in rows})


if __name__ == "__main__":
    main()

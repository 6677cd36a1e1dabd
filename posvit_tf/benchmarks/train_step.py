"""What a train step costs: positional, free and content attention here, plain Keras, PyTorch.

    python -m posvit_tf.benchmarks.train_step --json=train_step.json
    python -m posvit_tf.benchmarks.train_step --full        depth 7, batch 128, and ViT-tiny/16

All contestants take turns in one process, first on one core, then on all. A ratio is the median of
paired ratios of CPU time; keys as 65/train/positional:keras are on one core and without XLA on both
sides, /xla is with XLA (PyTorch has none and stays as it is), /wall wall time on one core, /wall2 on
all cores. Utilisation is the FLOPs of the matrix products by the peak of a 1024 x 1024 matmul timed
in the same rounds.
"""

import numpy as np

from posvit_tf.benchmarks import measure

PAIRS = (
    ("positional", "keras"),
    ("free", "keras"),
    ("content", "keras"),
    ("positional", "content"),
    ("positional", "torch_content"),
    ("positional", "torch_positional"),
    ("content", "torch_content"),
)
PEAK = 1024


def shapes(full: bool):
    """The default shapes, or the paper's depth and batch with ViT-tiny/16 beside them."""
    from posvit_tf.benchmarks.contestants import Shape

    if full:
        return (Shape(32, 4, 128, 7, 384, 12, 384), Shape(224, 16, 32, 12, 192, 3, 768))
    return (Shape(32, 4, 64, 2, 384, 12, 384), Shape(32, 2, 16, 2, 384, 12, 384))


def contestants(shape) -> dict:
    """name -> (model, train step, forward pass), those under XLA with /xla behind."""
    from posvit_tf.benchmarks.contestants import ours, plain_keras, pytorch

    found = {}
    for xla, mark in ((False, ""), (True, "/xla")):
        for attention in ("positional", "free", "content"):
            found[attention + mark] = ours(shape, attention, xla)
        found["keras" + mark] = plain_keras(shape, xla)
    try:
        found["torch_positional"] = pytorch(shape, "positional")
        found["torch_content"] = pytorch(shape, "content")
    except ImportError:
        pass
    return found


def all_ratios(times: dict, prefix: str, cores: int) -> dict[str, float]:
    """The ratios of those PAIRS that ran, under the keys of this file's head."""
    clocks = {"cpu": "", "wall": "/wall"} if cores == 1 else {"wall": "/wall2"}
    ratios = {}
    for one, other in PAIRS:
        for clock, of_clock in clocks.items():
            for mark in ("", "/xla"):
                against = other if other.startswith("torch") else other + mark
                if one + mark in times and against in times:
                    key = f"{prefix}/{one}:{other}{mark}{of_clock}"
                    ratios[key] = measure.ratio(times, one + mark, against, clock)
    return ratios


def run(cores: int, rounds: int, full: bool) -> dict[str, float]:
    """Times all contestants on so many cores and prints the tables."""
    measure.use_cores(cores)
    import tensorflow as tf

    from posvit_tf.benchmarks.contestants import parameters

    square = tf.random.normal((PEAK, PEAK))
    ratios = {}
    for shape in shapes(full):
        found = contestants(shape)
        calls = {name: step for name, (_, step, _) in found.items()}
        calls["matmul"] = lambda: tf.matmul(square, square)[0, 0].numpy()
        times = measure.interleave(calls, rounds)
        peak = 2 * PEAK**3 / np.median(times["matmul"].wall)
        print(
            f"\n{shape.tokens} tokens, batch {shape.batch}, depth {shape.depth}, width {shape.width}, "
            f"{cores} core(s): matmul peak {peak / 1e9:.0f} GFLOP/s"
        )
        rows, used = [], {}
        for name, (model, _, _) in found.items():
            attention = name.removesuffix("/xla").removeprefix("torch_").replace("keras", "content")
            whole = name.startswith(("keras", "torch"))
            flops = 3 * shape.forward_flops(attention, whole)
            used[name] = float(flops / np.median(times[name].wall) / peak)
            rows.append(
                (
                    name,
                    f"{parameters(model):,}",
                    f"{flops / 1e9:.1f}",
                    measure.spread(times[name].cpu),
                    measure.spread(times[name].wall),
                    f"{used[name]:.0%}",
                )
            )
        measure.table(
            ("train step", "parameters", "GFLOP", "CPU ms", "wall ms", "utilisation"), rows
        )
        own = all_ratios(times, f"{shape.tokens}/train", cores)
        if cores == 1:
            for name in ("positional", "free", "content"):
                own[f"{shape.tokens}/train/{name}:utilisation"] = used[name]
        print()
        measure.table(("ratio", "median"), ((k, f"{v:.3f}") for k, v in own.items()))
        ratios |= own
    return ratios


if __name__ == "__main__":
    measure.on_one_core_and_on_all("posvit_tf.benchmarks.train_step", __doc__, run)

"""What a forward pass costs at batch 1, 16 and 64, here, in plain Keras and in PyTorch.

    python -m posvit_tf.benchmarks.inference --json=inference.json
    python -m posvit_tf.benchmarks.inference --full         depth 7, and ViT-tiny/16

This package's model is the one that it exports: maps that no image changes are constants there.
Turns, cores and keys as in train_step: 65/inference/16/positional:keras, /xla, /wall, /wall2. A round
calls a contestant several times where one call is short.
"""

from posvit_tf.benchmarks import measure
from posvit_tf.benchmarks.train_step import all_ratios, contestants, shapes

BATCHES = (1, 16, 64)


def repeated(call, times: int):
    """A call that calls so many times."""

    def calls():
        for _ in range(times):
            call()

    return calls


def run(cores: int, rounds: int, full: bool) -> dict[str, float]:
    """Times all contestants on so many cores and prints the tables."""
    measure.use_cores(cores)
    ratios = {}
    for shape in shapes(full):
        found = contestants(shape)
        for batch in BATCHES:
            calls = 64 // batch if shape.tokens < 100 else max(1, 16 // batch)
            times = measure.interleave(
                {name: repeated(forward(batch), calls) for name, (_, _, forward) in found.items()},
                rounds,
            )
            print(
                f"\n{shape.tokens} tokens, batch {batch}, depth {shape.depth}, width {shape.width}, "
                f"{cores} core(s)"
            )
            measure.table(
                ("forward", "CPU ms", "wall ms"),
                (
                    (name, measure.spread(t.cpu / calls), measure.spread(t.wall / calls))
                    for name, t in times.items()
                ),
            )
            pairs = all_ratios(times, f"{shape.tokens}/inference/{batch}", cores)
            print()
            measure.table(("ratio", "median"), ((k, f"{v:.3f}") for k, v in pairs.items()))
            ratios |= pairs
    return ratios


if __name__ == "__main__":
    measure.on_one_core_and_on_all("posvit_tf.benchmarks.inference", __doc__, run)

"""Where a train step's time goes, by kind of TensorFlow operation, on one core.

    python -m posvit_tf.benchmarks.profile

Positional and content attention at the shapes of train_step, without XLA, traced by TensorFlow's
profiler: the median over steps of each operation's wall time, summed by kind. What operations do not
cover, the release of memory among it, is the last line.
"""

import collections
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from posvit_tf.benchmarks import measure

STEPS = 12
KINDS = 12  # that are told one by one


def traced(step) -> tuple[float, dict[str, tuple[int, float]]]:
    """(ms of a step, kind -> (operations a step, ms a step)) of STEPS traced calls."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    step()
    step()
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(STEPS):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
        tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        space.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    taken = collections.defaultdict(list)
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                # An operation is traced as path:Kind, what runs it as Some::Function.
                path, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if path and not path.endswith(":") and " " not in path and kind.isidentifier():
                    taken[path, kind].append(event.duration_ps / 1e9)
    kinds = collections.defaultdict(lambda: (0, 0.0))
    for (_, kind), times in taken.items():
        count, total = kinds[kind]
        each = len(times) / STEPS
        kinds[kind] = count + round(each), total + float(np.median(times)) * each
    return 1e3 * float(np.median(seconds)), kinds


def main() -> None:
    """Prints a table for each shape and attention."""
    measure.use_cores(1)
    from posvit_tf.benchmarks.contestants import ours
    from posvit_tf.benchmarks.train_step import shapes

    print(measure.machine())
    for shape in shapes(full=False):
        for attention in ("positional", "content"):
            total, kinds = traced(ours(shape, attention, xla=False)[1])
            first = sorted(kinds.items(), key=lambda item: -item[1][1])[:KINDS]
            rest = total - sum(ms for _, (_, ms) in first)
            print(
                f"\n{attention}, {shape.tokens} tokens, batch {shape.batch}: {total:.0f} ms a step"
            )
            rows = [(kind, count, f"{ms:.0f}", f"{ms / total:.0%}") for kind, (count, ms) in first]
            measure.table(
                ("operation", "a step", "ms", "share"),
                [*rows, ("all else", "", f"{rest:.0f}", f"{rest / total:.0%}")],
            )


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()

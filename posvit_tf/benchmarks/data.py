"""How many images the input pipeline gives, and what the loop adds to the bare train step.

    python -m posvit_tf.benchmarks.data --json=data.json

Keys: `cifar:step` is images a CPU-second of the pipeline (crop and flip, batch 128) by those that the
full-size step trains on in a CPU-second of one core; `jpeg:separate` is CPU time of the fused decode
and crop by that of decode then crop, on a JPEG of about 500 x 375 cut to 224; `loop:step` is CPU time
of 25 updates in the training loop by that of the bare step, size nano, in turns.
"""

import io
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from posvit_tf.benchmarks import measure


def pipeline(tf, split, batch: int):
    """A call that takes 8 batches of the CIFAR pipeline."""
    from posvit_tf.data import images

    batches = iter(
        images.train_dataset(
            split, batch_size=batch, accumulate=1, seed=0, crop_padding=4, flip=True, start_update=0
        )
    )
    return lambda: [next(batches) for _ in range(8)]


def jpegs(tf):
    """Two calls that decode and crop one JPEG 20 times: fused, and decoded whole first."""
    from PIL import Image

    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375))
    file = io.BytesIO()
    smooth.save(file, "JPEG", quality=90)
    data = tf.constant(file.getvalue())
    window = (60, 100, 224, 224)  # top, left, height, width

    @tf.function
    def fused():
        return tf.image.decode_and_crop_jpeg(data, window, channels=3)

    @tf.function
    def separate():
        top, left, height, width = window
        whole = tf.image.decode_jpeg(data, channels=3)
        return tf.image.crop_to_bounding_box(whole, top, left, height, width)

    # libjpeg interpolates chroma from both sides: at the window's outer columns the fused form has one.
    assert (fused().numpy() == separate().numpy())[:, 1:-1].all()
    return [lambda f=f: [f().numpy() for _ in range(20)] for f in (fused, separate)]


def loop_against_step(rounds: int) -> np.ndarray:
    """CPU seconds (rounds, 2) of 25 updates of size nano: in the training loop, then bare.

    The loop calls the evaluation at each epoch's end: here that is the bare step, so that the two take
    turns in one process. The loop's part holds the input pipeline and a line of metrics every epoch.
    """
    import tensorflow as tf

    from posvit_tf import config
    from posvit_tf.data.splits import Source, Split
    from posvit_tf.tasks import training_run
    from posvit_tf.training import classification, cluster, loop, step, strategy
    from posvit_tf.training.board import Board
    from posvit_tf.training.replicas import Replicas

    updates = 25
    settings = config.load(
        "cifar10:size=nano", {"train.epochs": rounds + 1, "checkpoint.every_epochs": rounds + 1}
    )
    rng = np.random.default_rng(0)
    n = updates * settings.data.batch_size
    split = Split(
        rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, n).astype("int32")
    )
    source = Source("random", split, split, split, tuple("0123456789"), (127.5,) * 3, (74.0,) * 3)
    one = strategy.make(settings)
    bare, bare_optimizer, *_ = training_run.start(settings, source, None, 1, classification.of)
    update = step.make_update(settings, one, bare, bare_optimizer)
    batch = (
        tf.constant(split.images[None, : settings.data.batch_size]),
        tf.constant(split.labels[None, : settings.data.batch_size]),
        tf.zeros((1, settings.data.batch_size, 0)),
    )
    taken, ended = [], time.process_time()

    def bare_updates(split: Split) -> np.ndarray:
        nonlocal ended
        began = time.process_time()
        for number in range(updates):
            figures = update(*batch, tf.constant(number, tf.int64))
        figures.numpy()
        taken.append((began - ended, time.process_time() - began))
        ended = time.process_time()
        return np.zeros((n, 10), "float32")

    objective, optimizer, plan, _ = training_run.start(settings, source, None, 1, classification.of)
    with tempfile.TemporaryDirectory() as folder:
        alone = cluster.Processes(cluster.Place(0, 1))
        trainer = Replicas(settings, one, objective, optimizer)
        trainer.outputs = bare_updates
        loop.train(settings, Path(folder), plan, alone, source, trainer, Board)
    return np.array(taken[1:])  # the first holds the tracing


def run(rounds: int) -> dict[str, float]:
    """Times all on one core and prints what came out."""
    measure.use_cores(1)
    import tensorflow as tf

    from posvit_tf.benchmarks.contestants import Shape, ours
    from posvit_tf.data.splits import Split

    rng = np.random.default_rng(0)
    split = Split(
        rng.integers(0, 256, (50_000, 32, 32, 3), dtype=np.uint8), np.zeros(50_000, "int32")
    )
    _, train_step, _ = ours(Shape(32, 4, 128, 7, 384, 12, 384), "positional", xla=False)
    times = measure.interleave({"cifar": pipeline(tf, split, 128), "step": train_step}, rounds)
    per_second = {"cifar": 8 * 128 / times["cifar"].cpu, "step": 128 / times["step"].cpu}
    fused, separate = jpegs(tf)
    times = measure.interleave({"fused": fused, "separate": separate}, rounds)
    per_second["jpeg 224, fused"] = 20 / times["fused"].cpu
    per_second["jpeg 224, decode then crop"] = 20 / times["separate"].cpu
    in_loop, bare = loop_against_step(rounds).T  # (rounds,) each
    measure.table(
        ("", "images a CPU-second"),
        ((name, f"{np.median(rate):.0f}") for name, rate in per_second.items()),
    )
    print(
        f"\n25 updates of size nano, CPU ms: {measure.spread(in_loop)} in the loop, "
        f"{measure.spread(bare)} bare"
    )
    return {
        "cifar:step": float(np.median(per_second["cifar"]) / np.median(per_second["step"])),
        "jpeg:separate": measure.ratio(times, "fused", "separate"),
        "loop:step": float(np.median(in_loop / bare)),
    }


def main() -> None:
    """Runs, prints the ratios and writes --json."""
    flags = measure.arguments(__doc__)
    print(measure.machine())
    ratios = run(flags.rounds)
    print()
    measure.table(("ratio", ""), ((k, f"{v:.3f}") for k, v in ratios.items()))
    measure.write(flags.json, ratios)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()

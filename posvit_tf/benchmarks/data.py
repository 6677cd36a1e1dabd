"""How many images the input pipeline gives, and what the loop adds to the bare train step.

    python -m posvit_tf.benchmarks.data --json=data.json

Keys: `cifar:step` is images a CPU-second of the pipeline (crop and flip, batch 128) by those that the
full-size step trains on in a CPU-second of one core; `jpeg:separate` is CPU time of the fused decode
and crop by that of decode then crop, on a JPEG of about 500 x 375 cut to 224; `loop:step` is wall time
an update of the training loop by that of the bare step, size nano.
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


def seconds_an_update(updates: int) -> tuple[float, float]:
    """(in the loop, bare): wall seconds an update of the nano size on the same images."""
    import tensorflow as tf

    from posvit_tf import config
    from posvit_tf.data import images
    from posvit_tf.data.sources import Source, Split
    from posvit_tf.models.build import build
    from posvit_tf.training import cluster, loop, optim, step, strategy

    rng = np.random.default_rng(0)
    split = Split(
        rng.integers(0, 256, (12_800, 32, 32, 3), dtype=np.uint8),
        rng.integers(0, 10, 12_800).astype("int32"),
    )
    source = Source("random", split, None, split, tuple("0123456789"), (127.5,) * 3, (74.0,) * 3)
    settings = config.load("cifar10:size=nano", {"train.steps": updates, "data.eval_split": ""})
    one = strategy.make(settings)
    model = build(settings, source.facts)
    plan = loop.plan(settings, len(split.labels), 1)
    with tempfile.TemporaryDirectory() as folder:
        processes = strategy.Processes(cluster.place(settings), one)
        log = loop.train(
            settings, Path(folder), plan, one, processes, source, model, lambda split: None
        )
    lines = [line["images_per_second"] for line in log.lines]
    in_loop = settings.data.batch_size / np.median(lines[1:])  # the first holds the tracing

    optimizer = optim.make(
        settings.optimizer, "float32", model, optim.schedule(settings.optimizer, updates, 0)
    )
    update = step.make_update(settings, one, model, optimizer)
    batch = next(
        iter(
            images.train_dataset(
                split,
                batch_size=settings.data.batch_size,
                accumulate=1,
                seed=0,
                crop_padding=4,
                flip=True,
                start_update=0,
            )
        )
    )
    bare = []
    for _ in range(len(lines)):
        began = time.perf_counter()
        for number in range(loop.LOG_EVERY):
            figures = update(*batch, tf.constant(number, tf.int64))
        figures.numpy()
        bare.append((time.perf_counter() - began) / loop.LOG_EVERY)
    return in_loop, float(np.median(bare[1:]))


def run(rounds: int) -> dict[str, float]:
    """Times all on one core and prints what came out."""
    measure.use_cores(1)
    import tensorflow as tf

    from posvit_tf.benchmarks.contestants import Shape, ours
    from posvit_tf.data.sources import Split

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
    in_loop, bare = seconds_an_update(150)
    measure.table(
        ("", "images a CPU-second"),
        ((name, f"{np.median(rate):.0f}") for name, rate in per_second.items()),
    )
    print(f"\nan update of size nano: {1e3 * in_loop:.1f} ms in the loop, {1e3 * bare:.1f} ms bare")
    return {
        "cifar:step": float(np.median(per_second["cifar"]) / np.median(per_second["step"])),
        "jpeg:separate": measure.ratio(times, "fused", "separate"),
        "loop:step": in_loop / bare,
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

"""Trains a config by JAX, where JAX sees a GPU or TPU and TensorFlow does not; imports no TensorFlow.

    python -m posvit_tf.accelerated pack --config=cifar10 --data=cifar10.npz     where TensorFlow is
    python -m posvit_tf.accelerated --config=cifar10 --data=cifar10.npz --workdir=DIR

Model, recipe, loop and workdir are those of main.py, and so are --config and --config.FIELD=VALUE. The
digits need no --data.
"""

import os
import random
import sys
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict

from posvit_tf import task
from posvit_tf.cli import exit_code
from posvit_tf.config import load, split_overrides
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.training import cluster, run_files

FLAGS = flags.FlagValues()
flags.DEFINE_string("config", "", "a config's name and arguments", flag_values=FLAGS)
flags.DEFINE_string("data", "", "the packed data set", flag_values=FLAGS)
flags.DEFINE_string("workdir", "", "where the run goes or continues", flag_values=FLAGS)

# The fields that this path knows, beside all of model.*; any other must be off: 0, false, "" or unset.
KNOWN = {
    *("name", "seed", "init_from", "data.name", "data.data_dir", "data.train_split"),
    *("data.eval_split", "data.test_split", "data.batch_size", "data.eval_batch_size"),
    *("data.crop_padding", "data.flip", "data.class_weights"),
    *("data.cell_size", "data.permutation_seed", "data.permute_first"),
    *("optimizer.name", "optimizer.learning_rate", "optimizer.final_learning_rate"),
    *("optimizer.warmup_epochs", "optimizer.weight_decay", "optimizer.clip_norm"),
    *(
        "optimizer.ema_decay",
        "optimizer.map_rate",
        "train.epochs",
        "train.steps",
        "train.accumulate",
    ),
    *("train.label_smoothing", "train.jit_compile"),  # JAX compiles always
    *("eval.every_epochs", "checkpoint.every_epochs", "checkpoint.keep"),
}
ONLY = {
    "task": ("classify",),
    "strategy": ("auto", "one"),
    "cpu_devices": (1,),
    "precision": ("float32", "mixed_bfloat16"),
    "model.name": ("vit",),
}


def main(argv: list[str]) -> int:
    """Runs a command line; bad input becomes one line on stderr.

    Args:
        argv: the words after `python -m posvit_tf.accelerated`.

    Returns:
        The exit code: 0 done, 2 bad input, 130 Ctrl-C. SystemExit goes through: 130 and 143 of a run that was
        saved.
    """
    sys.argv = ["-m", "posvit_tf.accelerated", *argv]  # for command.txt and the hint after Ctrl-C

    return exit_code(lambda: run(argv), debug=False)


def run(argv: list[str]) -> None:
    """Reads the flags, then packs a data set, or trains, resumes or shows the run of a workdir."""
    overrides, argv = split_overrides(argv)
    FLAGS.unparse_flags()
    try:
        _, *words = FLAGS([__name__, *argv])
    except flags.Error as error:
        raise UserError(f"{error}; `python -m posvit_tf.accelerated` shows the flags") from None
    if not argv:
        print(__doc__)
        return
    if words not in ([], ["pack"]):
        raise UserError(f"unexpected word {words[0]!r}; write flags as --flag=value")
    if not FLAGS.config:
        raise UserError("--config is missing; `posvit` lists the configs")
    config = load(FLAGS.config, overrides)
    check(config)
    data = Path(FLAGS.data).expanduser() if FLAGS.data else None
    if data is None and config.data.name != "digits":
        raise UserError(
            "--data=FILE.npz is missing; where TensorFlow is, "
            f"`python -m posvit_tf.accelerated pack --config={FLAGS.config} --data=FILE.npz` writes it"
        )
    if words:
        from posvit_tf.data import pack

        pack.write(config.data, data)
        print(f"{data}: {config.data.name}, {data.stat().st_size / 2**20:.1f} MiB")
        return
    if not FLAGS.workdir:
        raise UserError("--workdir=DIR is missing: the same command goes on there after a stop")
    workdir = Path(FLAGS.workdir).expanduser()
    result = run_files.finished(workdir, config)
    if result is None:
        with run_files.claimed(workdir, config):
            result = train(config, workdir, data)
    else:
        print("this run is finished already; it found:")
    task.find(config.task).tell(result, workdir)


def check(config: ConfigDict) -> None:
    """Raises UserError for a field that asks for what only main.py does."""
    for field, value in flat(run_files.plain(config)).items():
        known = field in KNOWN or field.startswith("model.")
        if value not in ONLY.get(field, (value,)) or (value and not known and field not in ONLY):
            left = " or ".join(map(str, ONLY.get(field, ["it off"])))
            raise UserError(f"{field}={value} is not for this path: set {left}, or use main.py")


def train(config: ConfigDict, workdir: Path, data: Path | None) -> dict:
    """Trains `config` on the device that JAX sees, on the digits or the packed data set.

    Returns:
        The content of result.json.

    Raises:
        UserError: as main.py's run.
    """
    backend = os.environ.setdefault("KERAS_BACKEND", "jax")
    if backend != "jax":
        raise UserError(f"KERAS_BACKEND={backend} cannot train here; unset it or set jax")
    # Only now: Keras reads its backend when it is imported.
    import jax

    from posvit_tf.data import digits, packed
    from posvit_tf.pages import run as page_of_run
    from posvit_tf.tasks import training_run
    from posvit_tf.training import classification, pretrained
    from posvit_tf.training.accelerator import Accelerator
    from posvit_tf.training.loop import out_of_memory

    # Keras draws the seeds of its starts from it; its own set_random_seed imports TensorFlow.
    random.seed(config.seed)
    source = packed.load(config.data, data) if data else digits.load(config.data)
    source, earlier = pretrained.find(config.init_from, workdir, source)
    objective, optimizer, plan, table = training_run.start(
        config, source, earlier, 1, classification.of
    )
    if table:
        print(table)
    alone = cluster.Processes(cluster.Place(0, 1))
    trainer = Accelerator(config, objective, optimizer)
    try:
        return training_run.train_and_test(
            config, workdir, source, plan, alone, trainer, page_of_run.write
        )
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise out_of_memory(config) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

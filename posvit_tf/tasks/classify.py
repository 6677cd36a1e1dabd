"""Train a classifier of images, evaluate it, and leave a workdir that a person can read."""

from collections.abc import Mapping
from pathlib import Path

from ml_collections import ConfigDict

from posvit_tf.data import fields as data_fields
from posvit_tf.models import fields as model_fields
from posvit_tf.training import run_files
from posvit_tf.training.fields import RUN

RESULT_FIELDS = (
    "config captions seed steps epochs parameters eval seconds "
    "test.accuracy test.loss test.examples"
)


def declared(config: Mapping) -> dict:
    """As `task.Task`."""
    data, model = (config.get(section) or {} for section in ("data", "model"))
    return {**RUN, "data": data_fields.declared(data), "model": model_fields.declared(model)}


def check(config: ConfigDict) -> None:
    """As `task.Task`."""
    model_fields.check(config.model, config.data.cell_size, config.train.freeze_attention)


def run(config: ConfigDict, workdir: Path) -> dict:
    """Trains `config` in `workdir`, or goes on where it stopped; writes result.json and plots/.

    Returns:
        The content of result.json.

    Raises:
        UserError: bad data or settings, a loss that is not finite, out of memory.
    """
    from posvit_tf.pages import run as page_of_run
    from posvit_tf.tasks import tensorflow_run
    from posvit_tf.training import classification

    return tensorflow_run.run(config, workdir, classification.of, page_of_run.write)


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    test = result["test"]
    print(
        f"test accuracy {test['accuracy']:.4f} (loss {test['loss']:.4f}) over {test['examples']} images, "
        f"balanced {test['balanced_accuracy']:.4f}"
        + (f", top-5 {test['top5_accuracy']:.4f}" if "top5_accuracy" in test else "")
        + (
            f", weights of epoch {result['eval']['epoch']}, the best on the eval split"
            if result["eval"]
            else ""
        )
    )
    run_files.tell_files(result, workdir)
    if (workdir / run_files.REPORT).exists():  # runs of older versions have none
        print(f"{workdir / run_files.REPORT}: all of it as a page")


def page(workdir: Path) -> Path:
    """Evaluates a run's model on its test split again and writes its page.

    Raises:
        UserError: its data cannot be had, or has changed.
    """
    import tensorflow as tf

    from posvit_tf import trained
    from posvit_tf.data import pictures
    from posvit_tf.pages import run as page_of_run
    from posvit_tf.training.classification import Classification
    from posvit_tf.training.replicas import Replicas

    with pictures.noticed():
        (model, class_names, config), source = trained.load_with_data(workdir)
        trainer = Replicas(config, tf.distribute.get_strategy(), Classification(model))
        return page_of_run.write(
            workdir, model, source.test, trainer.outputs(source.test), class_names
        )

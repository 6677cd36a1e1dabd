"""report.html of one classification run."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from posvit_tf.analysis import plots
from posvit_tf.data import permute
from posvit_tf.data.splits import Split
from posvit_tf.fields import flat
from posvit_tf.pages import classes, html, maps
from posvit_tf.training import logbook, run_files

LOOKED_AT = 16  # images that content attention is averaged over, as in plots/attention_maps.png


def curves(lines: list[dict]) -> list[tuple[str, str]]:
    """(name, picture) of the loss and of the accuracy by update; none without training."""
    if not any(line["split"] == "train" for line in lines):
        return []
    found = []
    for name in ("loss", "accuracy"):
        figure = Figure((4.8, 3.4))
        plots.draw_curve(figure.add_subplot(), lines, name)
        found.append((name, html.svg(figure)))
    return found


def last_of_each_epoch(lines: list[dict]) -> list[dict]:
    """The last line of each split in each epoch, in the order of the log."""
    last = {}
    for line in reversed(lines):
        last.setdefault((line["epoch"], line["split"]), line)
    return list(reversed(last.values()))


def write(
    workdir: Path, model: keras.Model, test: Split, logits: np.ndarray, class_names: Sequence[str]
) -> Path:
    """Writes report.html from what the run left in its workdir and from what the model does.

    Args:
        workdir: of a finished run.
        model: with the weights that the run reports.
        test: the test split, n examples.
        logits: (n, K), the model's for the test split.
        class_names: K.

    Returns:
        The path of the page.

    Raises:
        UserError: a file of the workdir is missing or damaged, or the page cannot be written.
    """
    result = run_files.read_result(workdir)
    config = run_files.read_config(workdir)
    lines = logbook.read_lines(workdir / "metrics.jsonl")
    order = permute.pixel_order(config["data"], test.images.shape)
    columns, rows = html.table(last_of_each_epoch(lines))
    return html.write(
        workdir / run_files.REPORT,
        "run.html",
        workdir=workdir,
        result=result,
        config=flat(config),
        start=run_files.first_start(workdir),
        crisp=max(model.input.shape[1:3]) <= 64,  # small photos are shown enlarged
        curves=curves(lines),
        maps=maps.section(model, permute.permuted(test.images[:LOOKED_AT], order)),
        permuted=order is not None,
        classes=classes.section(test, logits, class_names),
        columns=columns,
        rows=rows,
        lines=len(lines),
        csv=html.csv_uri(lines),
    )

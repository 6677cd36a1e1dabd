"""One page that compares several classification runs, those that differ by seed alone as one group."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from posvit_tf.analysis.seeds import spread
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.pages import html
from posvit_tf.training import logbook, run_files

# Okabe and Ito's colours, which stay apart for colour-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#444444")
LINES = ("-", "--", ":", "-.")


def read(workdir: Path) -> dict:
    """A run: {workdir, result, config (flat, without seed and name), lines}.

    Raises:
        UserError: no finished classification run.
    """
    result = run_files.read_result(workdir)
    if result["task"] != "classify":
        raise UserError(
            f"{workdir} is a run of task {result['task']}: a comparison takes classification runs "
            "only; name it alone for a page of its own"
        )
    config = flat(run_files.read_config(workdir))
    return {
        "workdir": workdir,
        "result": result,
        "config": {k: v for k, v in config.items() if k not in ("seed", "name")},
        "lines": logbook.read_lines(workdir / "metrics.jsonl"),
    }


def grouped(runs: Sequence[dict]) -> list[dict]:
    """Runs of the same config apart from the seed together, the best mean test accuracy first.

    Returns:
        A group: {label: the fields in which the groups differ, runs, seeds, accuracy, loss, seconds
        (of `spread`), parameters, key and color for the pictures}.
    """
    by_config: dict[str, list[dict]] = {}
    for run in runs:
        by_config.setdefault(json.dumps(run["config"], sort_keys=True), []).append(run)
    configs = [members[0]["config"] for members in by_config.values()]
    fields = dict.fromkeys(field for config in configs for field in config)
    differing = [f for f in fields if len({json.dumps(c.get(f)) for c in configs}) > 1]
    groups = [
        {
            "label": {f: members[0]["config"].get(f) for f in differing},
            "runs": members,
            "seeds": sorted(run["result"]["seed"] for run in members),
            "accuracy": spread([run["result"]["test"]["accuracy"] for run in members]),
            "loss": spread([run["result"]["test"]["loss"] for run in members]),
            "seconds": spread([run["result"]["seconds"] for run in members]),
            "parameters": members[0]["result"]["parameters"],
        }
        for members in by_config.values()
    ]
    groups.sort(key=lambda group: -group["accuracy"]["mean"])
    for number, group in enumerate(groups):
        group["key"] = str(number + 1)
        group["color"] = COLORS[number % len(COLORS)]
        group["line"] = LINES[number // len(COLORS) % len(LINES)]
    return groups


def accuracy_picture(groups: Sequence[dict]) -> str:
    """Each run's test accuracy as a dot, each group's mean as a bar across."""
    figure = Figure((4.8, 1.2 + 0.45 * len(groups)))
    axes = figure.add_subplot()
    for row, group in enumerate(groups):
        values = [run["result"]["test"]["accuracy"] for run in group["runs"]]
        axes.plot(values, [row] * len(values), "o", color=group["color"], alpha=0.6, markersize=7)
        axes.plot([np.mean(values)] * 2, [row - 0.3, row + 0.3], color="black", linewidth=2)
    axes.set_yticks(range(len(groups)), [group["key"] for group in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel("test accuracy (bar: mean of the group)")
    axes.set_ylabel("group")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return html.svg(figure)


def curves_picture(groups: Sequence[dict]) -> str | None:
    """Eval accuracy by update: the mean of each group, its least to its greatest shaded."""
    figure = Figure((4.8, 3.6))
    axes = figure.add_subplot()
    for group in groups:
        by_run = [
            {line["step"]: line["accuracy"] for line in run["lines"] if line["split"] == "eval"}
            for run in group["runs"]
        ]
        steps = sorted(set.intersection(*map(set, by_run)))
        if not steps:
            continue
        values = np.array([[found[step] for step in steps] for found in by_run])  # (runs,steps)
        style = {"color": group["color"], "linestyle": group["line"], "label": group["key"]}
        axes.plot(steps, values.mean(axis=0), marker="o" if len(steps) < 3 else "", **style)
        axes.fill_between(
            steps, values.min(axis=0), values.max(axis=0), color=group["color"], alpha=0.15, lw=0
        )
    if not axes.lines:
        return None
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.set_xlabel("update")
    axes.set_ylabel("eval accuracy")
    axes.grid(alpha=0.3)
    axes.legend(title="group", frameon=False, ncols=max(1, len(groups) // 6))
    axes.spines[["top", "right"]].set_visible(False)
    return html.svg(figure)


def write(path: Path, workdirs: Sequence[Path]) -> Path:
    """Writes a page that compares runs.

    Args:
        path: of the page.
        workdirs: of finished classification runs, each once.

    Raises:
        UserError: a workdir twice, or without such a run; or the page cannot be written.
    """
    resolved = [workdir.resolve() for workdir in workdirs]
    twice = {str(workdir) for workdir in resolved if resolved.count(workdir) > 1}
    if twice:
        raise UserError(f"{', '.join(sorted(twice))} is named twice: it would count as two seeds")
    groups = grouped([read(workdir) for workdir in workdirs])
    rows = [
        {
            "group": group["key"],
            "workdir": str(run["workdir"]),
            "seed": run["result"]["seed"],
            "test_accuracy": run["result"]["test"]["accuracy"],
            "test_loss": run["result"]["test"]["loss"],
            "eval_accuracy": run["result"]["eval"]["accuracy"] if run["result"]["eval"] else "",
            "seconds": run["result"]["seconds"],
            **group["label"],
        }
        for group in groups
        for run in group["runs"]
    ]
    links = {
        str(run["workdir"]): os.path.relpath(run["workdir"] / run_files.REPORT, path.parent)
        for group in groups
        for run in group["runs"]
        if (run["workdir"] / run_files.REPORT).exists()
    }
    common = groups[0]["runs"][0]["config"]
    return html.write(
        path,
        "compare.html",
        groups=groups,
        accuracy=accuracy_picture(groups),
        curves=curves_picture(groups),
        rows=rows,
        links=links,
        csv=html.csv_uri(rows),
        config={k: v for k, v in common.items() if k not in groups[0]["label"]},
        workdirs=workdirs,
        page=path,
    )

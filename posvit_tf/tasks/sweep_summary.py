"""What the runs of a sweep found together: result.json, summary.csv and summary.md."""

import csv
import itertools
import statistics
from pathlib import Path

from ml_collections import ConfigDict

from posvit_tf.analysis.seeds import paired, spread
from posvit_tf.tasks.sweep_runs import Run
from posvit_tf.training import run_files

HEAD = ("seconds a run", "maps moved", "paper")


def summarise(config: ConfigDict, runs: list[Run]) -> dict:
    """The content of result.json: each cell over its seeds, and its differences from the baseline.

    A cell's baseline is the cell that differs from it in one axis alone, by having the baseline's value
    there; `config.compare` holds both, as ("attention", "content").

    Args:
        config: of the sweep.
        runs: all of them, finished.
    """
    cells = []
    for cell in config.cells:
        own = [run.result() for run in runs if run.cell == cell]
        cells.append(
            {
                "axes": cell["axes"],
                "command": cell["command"],
                "paper": cell.get("paper"),
                "accuracy": spread([result["test"]["accuracy"] for result in own]),
                "loss": spread([result["test"]["loss"] for result in own]),
                "seconds": spread([result["seconds"] for result in own]),
                "parameters": own[0]["parameters"],
                "map_movement": moved(own),
            }
        )
    axis, baseline = config.compare
    differences = []
    for cell in cells:
        for other in cells:
            if cell is not other and other["axes"] == {**cell["axes"], axis: baseline}:
                differences.append(
                    {
                        "axes": cell["axes"],
                        "less": other["axes"],
                        "accuracy": paired(
                            cell["accuracy"]["per_seed"], other["accuracy"]["per_seed"]
                        ),
                    }
                )
    return {
        "task": config.task,
        "config": config.name,
        "scale": config.scale,
        "seeds": sorted({run.seed for run in runs}),
        "cells": cells,
        "differences": differences,
    }


def moved(results: list[dict]) -> dict | None:
    """How far the maps ended from their start (0 to 1), mean over layers and heads; None without maps."""
    movements = [result["map_movement"] for result in results]
    if None in movements:
        return None
    return spread([statistics.fmean(itertools.chain.from_iterable(one)) for one in movements])


def write_csv(runs: list[Run], workdir: Path) -> None:
    """summary.csv: a line a run; all but the last column, the seconds, is the same each time."""
    with open(workdir / "summary.csv", "w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(
            [*runs[0].cell["axes"], "seed", "test_accuracy", "test_loss", "epochs", "steps"]
            + ["parameters", "weights_sha256", "workdir", "seconds"]
        )
        for run in runs:
            result = run.result()
            lines.writerow(
                [*run.cell["axes"].values(), run.seed]
                + [result["test"]["accuracy"], result["test"]["loss"]]
                + [result["epochs"], result["steps"], result["parameters"]]
                + [result["weights_sha256"], run.workdir.relative_to(workdir)]
                + [round(result["seconds"], 1)]
            )


def markdown(config: ConfigDict, result: dict, title: str) -> str:
    """summary.md: how it was done, the tables and the pictures, so that it can be read elsewhere."""
    axes = list(result["cells"][0]["axes"])
    date, command, *versions = run_files.command().strip().split("\n")
    lines = [
        f"# {title}",
        "",
        f"    {command}",
        "",
        f"{date}; {', '.join(versions)}; {run_files.machine()}; {config.workers} runs at once.",
        f"Each run: the cell's command below, with `{config.overrides}` where it says nothing else, and "
        f"`seed=SEED`, seeds {', '.join(map(str, result['seeds']))}. Accuracy in % on the "
        "test split, read once a run; how far the maps moved from their start is the mean total "
        "variation, 0 to 1, of a row.",
        *([config.note] if config.note else []),
        "",
        row(*axes, "parameters", "mean +- std", "median [quartiles]", "each seed", *HEAD),
        row(*["---"] * (len(axes) + 4 + len(HEAD))),
    ]
    for cell in result["cells"]:
        accuracy = cell["accuracy"]
        lines.append(
            row(
                *cell["axes"].values(),
                f"{cell['parameters']:,}",
                told(accuracy),
                f"{accuracy['median']:.2%} [{accuracy['q1']:.2%}, {accuracy['q3']:.2%}]",
                ", ".join(f"{value:.2%}" for value in accuracy["per_seed"]),
                f"{cell['seconds']['mean']:.0f}",
                number(cell["map_movement"]) if cell["map_movement"] else "",
                paper(cell["paper"]),
            )
        )
    if result["differences"]:
        lines += [
            "",
            "Differences by seed in percentage points, with their 95% confidence interval (Student's t):",
            "",
            row("of", "less", "mean", "95% interval"),
            row(*["---"] * 4),
        ]
    for found in result["differences"]:
        accuracy = found["accuracy"]
        lines.append(
            row(
                ", ".join(map(str, found["axes"].values())),
                ", ".join(map(str, found["less"].values())),
                points(accuracy["mean"]),
                interval(accuracy),
            )
        )
    if "locality" in result:
        lines += ["", *locality_table(result["locality"])]
    for name, caption in result["captions"].items():
        lines += ["", f"![{name}](plots/{name})", "", caption]
    lines += ["", "Commands of the cells:", ""]
    lines += [f"    {cell['command']}" for cell in result["cells"]]
    return "\n".join(lines) + "\n"


def locality_table(found: list[dict]) -> list[str]:
    """The lines of the table of `sweep_maps.measure`."""
    lines = [
        "Correlation with nearness, mean distance in patches and locality score (1: only itself, 0: as "
        "a uniform map) of the maps, mean +- std; [the largest of 99 random orders of the patches].",
        "",
        row(
            *found[0]["axes"], "map", "correlation with nearness", "mean distance", "locality score"
        ),
        row(*["---"] * (len(found[0]["axes"]) + 4)),
    ]
    for one in found:
        near, score = (
            f"{number(one[name])} [{one[name + '_chance']['mean']:.3f}]"
            for name in ("nearness", "locality")
        )
        lines.append(row(*one["axes"].values(), one["map"], near, number(one["distance"]), score))
    return lines


def number(found: dict) -> str:
    """`mean +- std`, the mean alone of one seed."""
    return f"{found['mean']:.3f}" + ("" if found["std"] is None else f" +- {found['std']:.3f}")


def row(*values: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, values))} |"


def told(accuracy: dict) -> str:
    """`mean +- std` in %, the mean alone of one seed."""
    std = "" if accuracy["std"] is None else f" +- {100 * accuracy['std']:.2f}"
    return f"{100 * accuracy['mean']:.2f}{std}"


def points(difference: float) -> str:
    """A difference of accuracies in percentage points, with its sign."""
    return f"{100 * difference:+.2f}"


def interval(accuracy: dict) -> str:
    """`[low, high]` of a paired difference in percentage points."""
    if accuracy["low"] is None:
        return "one seed has none"
    return f"[{points(accuracy['low'])}, {points(accuracy['high'])}]"


def paper(values: tuple[float, ...] | None) -> str:
    """The paper's value, or its median and quartiles, in %."""
    if values is None:
        return ""
    median, *quartiles = values
    return f"{median}" + (f" [{quartiles[0]}, {quartiles[1]}]" if quartiles else "")

"""Many trainings that differ in one thing at a time, with their seeds, and what they say together.

The files are the record: a run's workdir is runs/<cell>/seed_<seed> in the sweep's, and one that is
finished is not run again.
"""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from ml_collections import ConfigDict

from posvit_tf.config import load, make
from posvit_tf.errors import UserError
from posvit_tf.fields import Field
from posvit_tf.tasks import sweep_summary
from posvit_tf.tasks.sweep_runs import cell_name, execute, expand
from posvit_tf.tasks.theory_runs import SEEDS
from posvit_tf.training import run_files

FIELDS = {
    **SEEDS,
    "seeds": SEEDS["seeds"]._replace(doc="how many of each cell"),
    "title": Field("", "of the summary"),
    "scale": Field("paper", "of which the title and the tables speak", choices=("paper", "laptop")),
    "plan": Field(False, "whether only the cost is measured and told"),
    "workers": Field(1, "runs at once", least=1),
    "overrides": Field("", "fields of every run that its cell does not set, as FIELD=VALUE ..."),
    "cells": Field((), "what is compared: {axes, command, paper}"),
    "compare": Field((), "the axis and its value that the others are compared with"),
    "plot": Field("points", "the picture", choices=("boxes", "lines", "points", "maps")),
    "note": Field("", "a line that goes into the summary"),
}


RESULT_FIELDS = "config captions"


ARGUMENTS = {"scale": FIELDS["scale"].choices, "plan": False}  # of the configs below


def of_scale(given: SimpleNamespace, laptop: str, paper_seeds: int, **fields: object) -> ConfigDict:
    """A sweep at the paper's scale, or at a laptop's: 3 seeds, two runs at once.

    Args:
        given: the values of ARGUMENTS.
        laptop: overrides at a laptop's scale; the paper's runs take all training images, and report the
            last weights.
        paper_seeds: seeds at the paper's scale.
        fields: the others of the config.
    """
    small = given.scale == "laptop"
    return make(
        "sweep",
        **vars(given),
        seeds=3 if small else paper_seeds,
        workers=2 if small else 1,
        overrides=laptop if small else "data.train_split=train data.eval_split=",
        **fields,
    )


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`."""
    return FIELDS


def check(config: ConfigDict) -> None:
    """As `task.Task`: what the cells say is told when they are loaded."""


def run(config: ConfigDict, workdir: Path) -> dict:
    """Runs what is not finished, then writes summary.csv, summary.md, plots/ and result.json.

    With `config.plan` it only measures and tells what the sweep would cost, and writes plan.json.

    Returns:
        The content of result.json, or of plan.json.

    Raises:
        UserError: a cell's config is refused, or a run failed.
        SystemExit: 130 after Ctrl-C, 143 after SIGTERM, with the runs saved.
    """
    runs = expand(config, workdir)
    if config.plan:
        from posvit_tf.tasks import sweep_plan

        return sweep_plan.estimate(config, runs, workdir)
    execute(runs, config.workers, workdir)
    result = sweep_summary.summarise(config, runs)
    sweep_summary.write_csv(runs, workdir)
    name = config.name.partition(":")[0]
    usual = load(config.name)
    changed = (config.overrides, config.seeds) != (usual.overrides, usual.seeds)
    title = (
        f"{config.title}, {config.scale} scale"
        + (" with changes" if changed else "")
        + ("" if config.scale == "paper" and not changed else " (not the paper's)")
    )
    # Only now, when the runs need none of this machine.
    from posvit_tf.analysis import sweep_plots

    (workdir / "plots").mkdir(exist_ok=True)
    picture = workdir / "plots" / f"{name}.png"
    if config.plot == "maps":
        from posvit_tf.tasks import sweep_maps

        result["locality"], found = sweep_maps.measure(runs)
        values = [one.values for one in found]
        caption = sweep_plots.maps(
            result["locality"], values, found[0].grid, title, config.note, picture
        )
    else:
        plot = getattr(sweep_plots, config.plot)
        caption = plot(result, title, config.note, picture)
    result["captions"] = {picture.name: caption}
    (workdir / "summary.md").write_text(sweep_summary.markdown(config, result, title))
    run_files.write_json(workdir / "result.json", result)
    return result


def tell(result: dict, workdir: Path) -> None:
    """Prints a line a cell and a difference, and where the files are."""
    if "differences" not in result:  # a plan, told when it was made
        return
    for cell in result["cells"]:
        print(f"  {cell_name(cell)}: test accuracy {sweep_summary.told(cell['accuracy'])}%")
    for found in result["differences"]:
        accuracy = found["accuracy"]
        print(
            f"  {cell_name(found)} less {cell_name({'axes': found['less']})}: "
            f"{sweep_summary.points(accuracy['mean'])} points, 95% {sweep_summary.interval(accuracy)}"
        )
    print(workdir / "summary.md")
    run_files.tell_files(result, workdir)


def page(workdir: Path) -> Path:
    """As `task.Task`: its runs side by side."""
    from posvit_tf.pages import compare

    runs = sorted(file.parent for file in workdir.glob("runs/*/*/result.json"))
    if not runs:
        raise UserError(f"{workdir}/runs holds no finished run: bring the folder back")
    return compare.write(workdir / run_files.REPORT, runs)

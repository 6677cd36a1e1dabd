"""Train the simplified ViT on spatially structured data and check which sets it found."""

from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.analysis import theory_plots
from posvit_tf.data.spatial import grid_shape
from posvit_tf.theory import association
from posvit_tf.theory.baselines import linear_error, set_aware_error
from posvit_tf.theory.events import events
from posvit_tf.theory.processes import PROCESSES, Run
from posvit_tf.theory.settings import Setting, from_config, name_of
from posvit_tf.theory.summary import over_seeds, told
from posvit_tf.training import logbook, run_files
from posvit_tf.training.board import Board

GLM_BOUND = 1 / 8  # in the paper's regime no generalised linear model errs less


def run(config: ConfigDict, workdir: Path) -> dict:
    """Runs `config.process` once a seed; writes metrics.jsonl, result.json and plots/.

    Returns:
        The content of result.json.

    Raises:
        UserError: settings that do not fit, or a risk that is not finite.
    """
    setting = from_config(config)
    describe(setting)
    seeds = range(config.seed, config.seed + config.seeds)
    log = logbook.Logbook(workdir, update=-1, board=Board)
    runs = []
    for seed in seeds:
        runs.append(PROCESSES[config.process](setting, seed))
        for record in runs[-1].trace:
            log.write(split=f"seed_{seed}", **record)
        last = runs[-1].trace[-1]
        print(
            f"seed {seed}: test error {last['test_error']:.4f}, overlap {last['overlap']:.3f}, "
            f"cos(v, w*) {last['cosine']:.3f}, {runs[-1].seconds:.1f} s",
            flush=True,
        )
    captions = draw(runs[0], setting, workdir / "plots")
    found = summarise(runs, setting)
    result = {
        "task": config.task,
        "config": config.name,
        "setting": name_of(setting),
        "process": config.process,
        "seeds": list(seeds),
        "steps": setting.steps,
        **found,
        "seconds": over_seeds([run.seconds for run in runs]),
        "captions": captions,
    }
    run_files.write_json(workdir / "result.json", result)
    return result


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    print(table(result))
    run_files.tell_files(result, workdir)


def describe(setting: Setting) -> None:
    """Prints the numbers in use, and a warning where a linear rule is good already."""
    print(
        f"D={setting.D} = C*L = {setting.C}*{setting.L}, d={setting.d}, N={setting.N}, "
        f"q={setting.q:.4g}, sigma={setting.sigma:.4g}, {setting.partition} sets\n"
        f"p={setting.p}, nu={setting.nu:g}, sigma_A={setting.sigma_A:g}, omega={setting.omega:g}, "
        f"eta_v={setting.eta_v:g}, eta_A={setting.eta_A:g}, {setting.steps} steps",
        flush=True,
    )
    linear = linear_error(setting.D, setting.C, setting.q)
    if linear < GLM_BOUND:
        kappa = setting.q * setting.D / setting.C**2
        print(
            f"warning: the best linear rule errs {linear:.4f} < 1/8 here (q D / C^2 = {kappa:.3g}): "
            "outside the paper's regime; raise q or D, or lower C",
            flush=True,
        )


def summarise(runs: list[Run], setting: Setting) -> dict:
    """The figures of result.json: errors, association, cosine and events over the seeds."""
    last = [run.trace[-1] for run in runs]
    linear = linear_error(setting.D, setting.C, setting.q)
    aware = set_aware_error(setting.D, setting.C, setting.q)
    times = [events(run.trace, linear) for run in runs]
    overlaps = [record["overlap"] for record in last]
    return {
        "test_error": over_seeds([record["test_error"] for record in last]),
        "risk": over_seeds([record["risk"] for record in last]),
        "linear_error": over_seeds([linear] * len(runs)),
        "set_aware_error": over_seeds([aware] * len(runs)),
        "association": {
            "exact": float(np.mean([overlap == 1 for overlap in overlaps])),
            "overlap": over_seeds(overlaps),
            "chance": association.chance(setting.D, setting.C),
        },
        "cosine": over_seeds([record["cosine"] for record in last]),
        "events": {name: over_seeds([time[name] for time in times]) for name in ("t1", "t2", "t3")},
    }


def draw(run: Run, setting: Setting, folder: Path) -> dict[str, str]:
    """Draws the first seed's run; returns the caption of each file."""
    folder.mkdir(parents=True, exist_ok=True)
    partition = run.data.partition
    linear = linear_error(setting.D, setting.C, setting.q)
    aware = set_aware_error(setting.D, setting.C, setting.q)
    captions = {
        "attention.png": theory_plots.found_and_sorted(run.A, partition, folder / "attention.png"),
        "position.png": theory_plots.position_row(
            run.A, partition, grid_shape(setting.D), folder / "position.png"
        ),
        "traces.png": theory_plots.traces(
            run.trace, events(run.trace, linear), linear, aware, folder / "traces.png"
        ),
    }
    if name_of(setting) == "figure4":
        captions["figure4.png"] = theory_plots.figure4(
            run.trace, run.A, partition, linear, aware, folder / "figure4.png"
        )
    return captions


def table(found: dict) -> str:
    """The result for a person, a line a figure."""

    overlap = found["association"]
    rows = {
        "test error": told(found["test_error"]),
        "best linear rule's error": f"{found['linear_error']['mean']:.4f}",
        "set-aware rule's error": f"{found['set_aware_error']['mean']:.4f}",
        "association exact": f"{overlap['exact']:.0%} of seeds",
        "overlap": f"{told(overlap['overlap'])}  chance {overlap['chance']:.3f}",
        "cos(v, w*)": told(found["cosine"]),
        "t1, a linear rule": told(found["events"]["t1"]),
        "t2, sets learned": told(found["events"]["t2"]),
        "t3, risk gone": told(found["events"]["t3"]),
    }
    return "\n".join(f"  {name:26}{value}" for name, value in rows.items())

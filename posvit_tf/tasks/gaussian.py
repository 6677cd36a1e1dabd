"""Train the simplified ViT on Gaussian patches with a convolution's label."""

from pathlib import Path

from ml_collections import ConfigDict

from posvit_tf.analysis import theory_plots
from posvit_tf.theory import association
from posvit_tf.theory.gaussian import gaussian
from posvit_tf.theory.settings import GAUSSIAN_SETTINGS, from_config, name_of
from posvit_tf.theory.summary import over_seeds, told
from posvit_tf.training import logbook, run_files
from posvit_tf.training.board import Board


def run(config: ConfigDict, workdir: Path) -> dict:
    """Runs once a seed; writes metrics.jsonl, result.json and plots/.

    Returns:
        The content of result.json.

    Raises:
        UserError: settings that do not fit, or a risk that is not finite.
    """
    setting = from_config(config)
    seeds = range(config.seed, config.seed + config.seeds)
    log = logbook.Logbook(workdir, update=-1, board=Board)
    runs = []
    for seed in seeds:
        runs.append(gaussian(setting, config.linear, seed))
        for record in runs[-1].trace:
            log.write(split=f"seed_{seed}", **record)
        last = runs[-1].trace[-1]
        print(
            f"seed {seed}: test error {last['test_error']:.4f}, overlap {last['overlap']:.3f}, "
            f"{runs[-1].seconds:.1f} s",
            flush=True,
        )
    (workdir / "plots").mkdir(exist_ok=True)
    first = runs[0]
    chance = association.chance(setting.D, setting.C)
    caption = theory_plots.figure2(
        first.trace, first.A, first.data.partition, chance, workdir / "plots" / "figure2.png"
    )
    last = [run.trace[-1] for run in runs]
    overlaps = over_seeds([record["overlap"] for record in last])
    result = {
        "task": config.task,
        "config": config.name,
        "setting": name_of(setting, GAUSSIAN_SETTINGS),
        "seeds": list(seeds),
        "test_error": over_seeds([record["test_error"] for record in last]),
        "association": {
            "exact": sum(overlap == 1 for overlap in overlaps["per_seed"]) / len(runs),
            "overlap": overlaps,
            "chance": chance,
        },
        "cosine": over_seeds([record["cosine"] for record in last]),
        "seconds": over_seeds([run.seconds for run in runs]),
        "captions": {"figure2.png": caption},
    }
    run_files.write_json(workdir / "result.json", result)
    return result


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    overlap = result["association"]["overlap"]
    print(
        f"  test error  {told(result['test_error'])}\n"
        f"  overlap     {told(overlap)}  "
        f"chance {result['association']['chance']:.3f}"
    )
    run_files.tell_files(result, workdir)

"""Learn A on one feature, then a new feature on the same sets from few samples."""

from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from posvit_tf.analysis import theory_plots
from posvit_tf.tasks.associate import describe, summarise
from posvit_tf.theory.processes import realistic
from posvit_tf.theory.settings import from_config, name_of
from posvit_tf.theory.summary import over_seeds
from posvit_tf.theory.transfer import transfer_errors
from posvit_tf.training import logbook, run_files
from posvit_tf.training.board import Board


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """16, 32, 64, ... up to `largest`."""
    return tuple(2**k for k in range(4, largest.bit_length()))


def run(config: ConfigDict, workdir: Path) -> dict:
    """Runs the source and every method of transfer once a seed; writes result.json and plots/.

    Returns:
        The content of result.json.

    Raises:
        UserError: settings that do not fit, or a risk that is not finite.
    """
    setting = from_config(config)
    describe(setting)
    sizes = sizes_up_to(config.largest_n)
    seeds = range(config.seed, config.seed + config.seeds)
    log = logbook.Logbook(workdir, update=-1, board=Board)
    sources, found = [], []
    for seed in seeds:
        sources.append(realistic(setting, seed))
        found.append(transfer_errors(setting, sources[-1].A, sources[-1].data, sizes, seed))
        for i, n in enumerate(sizes):
            errors = {name: curve[i] for name, curve in found[-1].items()}
            log.write(step=n, split=f"seed_{seed}", **errors)
        print(f"seed {seed} done", flush=True)
    errors = {
        name: np.array([errors[name] for errors in found]) for name in found[0]
    }  # each (seeds, sizes)
    (workdir / "plots").mkdir(exist_ok=True)
    caption = theory_plots.transfer_curves(sizes, errors, workdir / "plots" / "transfer.png")
    result = {
        "task": config.task,
        "config": config.name,
        "setting": name_of(setting),
        "seeds": list(seeds),
        **summarise(sources, setting),
        "transfer": {
            name: {
                str(n): {**over_seeds(column), "median": float(np.median(column))}
                for n, column in zip(sizes, array.T, strict=True)
            }
            for name, array in errors.items()
        },
        "captions": {"transfer.png": caption},
    }
    run_files.write_json(workdir / "result.json", result)
    return result


def tell(result: dict, workdir: Path) -> None:
    """Prints the median test errors, a line a method and a column a number of samples."""
    methods = result["transfer"]
    print("  median test error at n =" + "".join(f"{n:>8}" for n in methods["frozen"]))
    for name, by_size in methods.items():
        print(f"  {name:24}" + "".join(f"{found['median']:8.3f}" for found in by_size.values()))
    run_files.tell_files(result, workdir)

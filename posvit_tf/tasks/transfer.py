"""Learn A on one feature, then a new feature on the same sets from few samples."""

from collections.abc import Mapping
from pathlib import Path

from ml_collections import ConfigDict

from posvit_tf.analysis.seeds import over_seeds
from posvit_tf.fields import Field
from posvit_tf.tasks import theory_runs
from posvit_tf.tasks.theory_runs import check, page
from posvit_tf.theory.settings import from_config
from posvit_tf.training import run_files

__all__ = ["RESULT_FIELDS", "check", "declared", "page", "run", "tell"]

LARGEST_N = Field(512, "the most samples of the new feature: 16, 32, 64, ... up to it", least=16)


RESULT_FIELDS = "config captions"


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`."""
    return {**theory_runs.declared(config), "largest_n": LARGEST_N}


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """16, 32, 64, ... up to `largest`."""
    return tuple(2**k for k in range(4, largest.bit_length()))


def run(config: ConfigDict, workdir: Path) -> dict:
    """As `task.Task`: the source and every method of transfer, once a seed."""
    import numpy as np

    from posvit_tf.analysis import theory_plots
    from posvit_tf.tasks import theory_figures
    from posvit_tf.theory.processes import realistic
    from posvit_tf.theory.transfer import transfer_errors

    setting = from_config(config)
    theory_figures.describe(setting)
    sizes = sizes_up_to(config.largest_n)

    def once(seed: int) -> tuple:
        source = realistic(setting, seed)
        return source, transfer_errors(setting, source.A, source.data, sizes, seed)

    def lines(found: tuple) -> list[dict]:
        return [
            {"step": n, **{name: curve[i] for name, curve in found[1].items()}}
            for i, n in enumerate(sizes)
        ]

    found = theory_runs.each_seed(config, workdir, once, lines, lambda _: "done")
    sources, by_method = zip(*found, strict=True)
    errors = {
        name: np.array([curves[name] for curves in by_method]) for name in by_method[0]
    }  # each (seeds, sizes)
    (workdir / "plots").mkdir(exist_ok=True)
    caption = theory_plots.transfer_curves(sizes, errors, workdir / "plots" / "transfer.png")
    return theory_runs.write_result(
        config,
        workdir,
        **theory_figures.summarise(sources, setting),
        transfer={
            name: {
                str(n): {**over_seeds(column), "median": float(np.median(column))}
                for n, column in zip(sizes, array.T, strict=True)
            }
            for name, array in errors.items()
        },
        captions={"transfer.png": caption},
    )


def tell(result: dict, workdir: Path) -> None:
    """Prints the median test errors, a line a method and a column a number of samples."""
    methods = result["transfer"]
    print("  median test error at n =" + "".join(f"{n:>8}" for n in methods["frozen"]))
    for name, by_size in methods.items():
        print(f"  {name:24}" + "".join(f"{found['median']:8.3f}" for found in by_size.values()))
    run_files.tell_files(result, workdir)

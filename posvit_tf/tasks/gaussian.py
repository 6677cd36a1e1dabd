"""Train the simplified ViT on Gaussian patches with a convolution's label."""

from collections.abc import Mapping
from pathlib import Path

from ml_collections import ConfigDict

from posvit_tf.analysis.seeds import over_seeds, told
from posvit_tf.fields import Field
from posvit_tf.tasks import theory_runs
from posvit_tf.tasks.theory_runs import check, page
from posvit_tf.theory.settings import from_config
from posvit_tf.training import run_files

__all__ = ["RESULT_FIELDS", "check", "declared", "page", "run", "tell"]

LINEAR = Field(100.0, "weight of u in the label's phi(u) = u^3 + linear u", least=0)


RESULT_FIELDS = "config captions"


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`."""
    return {**theory_runs.declared(config), "linear": LINEAR}


def run(config: ConfigDict, workdir: Path) -> dict:
    """As `task.Task`, once a seed; UserError for a risk that is not finite."""
    from posvit_tf.analysis import theory_plots
    from posvit_tf.tasks.theory_figures import associated, at_the_end
    from posvit_tf.theory.gaussian import gaussian

    setting = from_config(config)
    runs = theory_runs.each_seed(
        config,
        workdir,
        lambda seed: gaussian(setting, config.linear, seed),
        lambda run: run.trace,
        lambda run: "test error {test_error:.4f}, overlap {overlap:.3f}, {seconds:.1f} s".format(
            **run.trace[-1], seconds=run.seconds
        ),
    )
    (workdir / "plots").mkdir(exist_ok=True)
    found = associated(runs, setting)
    first, picture = runs[0], workdir / "plots" / "figure2.png"
    caption = theory_plots.figure2(
        first.trace, first.A, first.data.partition, found["chance"], picture
    )
    return theory_runs.write_result(
        config,
        workdir,
        test_error=at_the_end(runs, "test_error"),
        association=found,
        cosine=at_the_end(runs, "cosine"),
        seconds=over_seeds([run.seconds for run in runs]),
        captions={picture.name: caption},
    )


def tell(result: dict, workdir: Path) -> None:
    """Prints what a finished run found and where it is."""
    overlap = result["association"]["overlap"]
    print(
        f"  test error  {told(result['test_error'])}\n"
        f"  overlap     {told(overlap)}  "
        f"chance {result['association']['chance']:.3f}"
    )
    run_files.tell_files(result, workdir)

"""What runs of the simplified ViT found, over the seeds, and what they are up against."""

from collections.abc import Sequence

from posvit_tf.analysis.seeds import over_seeds
from posvit_tf.theory import association
from posvit_tf.theory.baselines import linear_error, set_aware_error
from posvit_tf.theory.events import events
from posvit_tf.theory.processes import Run
from posvit_tf.theory.settings import Setting

GLM_BOUND = 1 / 8  # in the paper's regime no generalised linear model errs less


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


def summarise(runs: Sequence[Run], setting: Setting) -> dict:
    """The figures of result.json: errors, association, cosine and events over the seeds."""
    linear = linear_error(setting.D, setting.C, setting.q)
    aware = set_aware_error(setting.D, setting.C, setting.q)
    times = [events(run.trace, linear) for run in runs]
    return {
        "test_error": at_the_end(runs, "test_error"),
        "risk": at_the_end(runs, "risk"),
        "linear_error": over_seeds([linear] * len(runs)),
        "set_aware_error": over_seeds([aware] * len(runs)),
        "association": associated(runs, setting),
        "cosine": at_the_end(runs, "cosine"),
        "events": {name: over_seeds([time[name] for time in times]) for name in ("t1", "t2", "t3")},
    }


def at_the_end(runs: Sequence[Run], name: str) -> dict:
    """A figure of the last record of each trace, over the seeds."""
    return over_seeds([run.trace[-1][name] for run in runs])


def associated(runs: Sequence[Run], setting: Setting) -> dict:
    """How much of the association was found: {exact: share of the seeds, overlap, chance}."""
    overlaps = at_the_end(runs, "overlap")
    return {
        "exact": sum(overlap == 1 for overlap in overlaps["per_seed"]) / len(runs),
        "overlap": overlaps,
        "chance": association.chance(setting.D, setting.C),
    }

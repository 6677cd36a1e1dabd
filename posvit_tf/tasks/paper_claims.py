"""The paper's claims, each tried over the seeds (sections 3 to 5)."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from posvit_tf.tasks.claims import Row
from posvit_tf.tasks.theory_figures import GLM_BOUND, summarise
from posvit_tf.theory import association
from posvit_tf.theory.baselines import fitted_linear_error, linear_error
from posvit_tf.theory.gaussian import gaussian
from posvit_tf.theory.processes import data_of, idealised, realistic
from posvit_tf.theory.settings import GAUSSIAN_SETTINGS, LINEAR, SETTINGS, Setting
from posvit_tf.theory.transfer import existence, transfer_errors


def spread(values: Sequence[float]) -> str:
    """Mean +- standard deviation."""
    return f"{np.mean(values):.4f} +- {np.std(values, ddof=1):.4f}"


def association_by(
    process: Callable, claim: str, name: str, most_error: float, seeds: range
) -> Row:
    """A process finds the sets exactly, and its mean test error is at most `most_error`."""
    setting = Setting(**SETTINGS[name])
    found = summarise([process(setting, seed) for seed in seeds], setting)
    errors, exact = found["test_error"]["per_seed"], found["association"]["exact"]
    events = [found["events"][t]["per_seed"] for t in ("t1", "t2", "t3")]
    ordered = [
        None not in times and times[0] < times[1] < times[2] for times in zip(*events, strict=True)
    ]
    return Row(
        claim,
        name,
        f"exact in {exact:.0%}, test error {spread(errors)} (linear rule "
        f"{found['linear_error']['mean']:.3f}), risk {found['risk']['mean']:.1e}, "
        f"events in order in {np.mean(ordered):.0%}",
        exact == 1 and np.mean(errors) <= most_error,
    )


def existence_row(seeds: range) -> Row:
    """Claim 3.2."""
    setting = Setting(**SETTINGS["small"])
    found = [existence(setting, seed) for seed in seeds]
    own, shifted = ([f[name]["test_error"] for f in found] for name in ("associated", "shifted"))
    overlap = max(f["shifted"]["overlap"] for f in found)
    return Row(
        "3.2 a model generalises with no association",
        "small, set l attends to set l+1, v learned",
        f"test error {spread(shifted)}, with the association {spread(own)}; overlap {overlap:.3f}",
        overlap == 0 and abs(np.mean(shifted) - np.mean(own)) <= 0.002,
    )


def linear_row(name: str, seeds: range) -> Row:
    """The bound on generalised linear models."""
    setting = Setting(**SETTINGS[name])
    fitted = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        data = data_of(setting, rng)
        fitted.append(fitted_linear_error(*data.sample(setting.N, rng), *data.sample(2000, rng)))
    best = linear_error(setting.D, setting.C, setting.q)
    return Row(
        "GLM: a generalised linear model errs >= 1/8",
        name,
        f"best rule {best:.4f}, exact; logistic regression on N samples {spread(fitted)}; "
        f"q D / C^2 = {setting.q * setting.D / setting.C**2:.3g}",
        best >= GLM_BOUND,
    )


def transfer_rows(seeds: range) -> list[Row]:
    """Claims 5.1 and 5.2."""
    setting = Setting(**SETTINGS["small"])
    found = []
    for seed in seeds:
        source = realistic(setting, seed)
        found.append(transfer_errors(setting, source.A, source.data, (16, 512), seed))
    median = {name: np.median([f[name] for f in found], axis=0) for name in found[0]}
    return [
        Row(
            "5.1 a frozen A fits a new feature from few samples",
            "small, n = 16, medians",
            f"frozen {median['frozen'][0]:.4f}, oracle {median['oracle'][0]:.4f}, "
            f"v untrained {median['untrained'][0]:.3f}",
            median["frozen"][0] <= 0.02,
        ),
        Row(
            "5.2 without the association many samples are needed",
            "small, n = 16 and 512, medians",
            f"from scratch {median['scratch'][0]:.3f} and {median['scratch'][1]:.3f}, uniform "
            f"attention {median['uniform'][0]:.3f} and {median['uniform'][1]:.3f}, logistic "
            f"regression {median['logistic'][0]:.3f} and {median['logistic'][1]:.3f}",
            median["scratch"][0] >= 0.1 and median["uniform"][1] >= 0.05,
        ),
    ]


def gaussian_row(name: str, seeds: range) -> Row:
    """Generalisation without association on Gaussian patches."""
    setting = Setting(**GAUSSIAN_SETTINGS[name])
    last = [gaussian(setting, LINEAR[name], seed).trace[-1] for seed in seeds]
    chance = association.chance(setting.D, setting.C)
    overlaps = [record["overlap"] for record in last]
    errors = [record["test_error"] for record in last]
    return Row(
        "Fig. 2 generalises and A stays random",
        f"Gaussian patches, {name} label, D = {setting.D}",
        f"test error {spread(errors)}, overlap {spread(overlaps)}, chance {chance:.3f}",
        np.mean(errors) <= 0.07 and np.mean(overlaps) <= chance + 0.1,
    )


def attempts(seeds: range) -> Iterator[Row]:
    """Every claim, tried in turn."""
    yield association_by(idealised, "4.1 idealised", "population", 0.01, seeds)
    yield association_by(realistic, "4.2 realistic", "tiny", 0.01, seeds)
    yield association_by(realistic, "4.2 realistic", "small", 0.02, seeds)
    yield association_by(realistic, "4.2 realistic", "hard", 0.03, seeds)
    yield association_by(realistic, "Fig. 4", "figure4", 0.03, seeds)
    yield existence_row(seeds)
    yield linear_row("hard", seeds)
    yield linear_row("small", seeds)
    yield from transfer_rows(seeds)
    yield gaussian_row("near_linear", seeds)
    yield gaussian_row("cubic", seeds)

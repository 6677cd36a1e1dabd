"""Numbers of a run: what derives, what is refused."""

import pytest

from posvit_tf.config import load
from posvit_tf.errors import UserError
from posvit_tf.theory.settings import SETTINGS, Setting, from_config, name_of


def test_unset_numbers_derive_from_those_in_use():
    setting = from_config(load("spatial:setting=small", {"D": 96, "C": 6, "d": 25}))
    assert (setting.L, setting.sigma) == (16, 0.2)
    assert setting.eta_A == pytest.approx(0.3 * 96 * 16)
    assert setting.output_scale == 1 / 96
    overridden = from_config(load("spatial", {"sigma": 0.0, "eta_A": 3.0}))
    assert (overridden.sigma, overridden.eta_A) == (0.0, 3.0)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(D=65), "D=65 .*C=4"),
        (dict(L=15), r"D=64 is not C\*L=4\*15: set L to 16"),
        (dict(p=4), "p=4"),
        (dict(p=1), "p=1"),
        (dict(q=1.01), "q=1.01"),
        (dict(q=float("nan")), "q=nan"),
        (dict(sigma=-1.0), "sigma=-1.0"),
        (dict(N=0), "N=0"),
        (dict(steps=-1), "steps=-1"),
        (dict(sigma_A=float("inf")), "sigma_A=inf"),
        (dict(partition="rows"), "partition='rows'"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(UserError, match=message):
        Setting(**SETTINGS["small"] | change)


def test_edges_are_legal():
    Setting(**SETTINGS["small"] | dict(q=1.0, sigma_A=0.0, sigma=0.0, steps=0))
    Setting(**SETTINGS["small"] | dict(q=0.0))


def test_setting_and_process_are_arguments():
    def name(config):
        return name_of(from_config(load(*config)))

    assert name(["spatial:process=idealised"]) == "population"
    assert name(["spatial:process=semi_idealised"]) == "small"
    assert name(["spatial:setting=figure4", {"partition": "random"}]) == "figure4"
    assert name(["spatial:setting=tiny", {"q": 0.1}]) == "custom"
    with pytest.raises(UserError, match="realistic"):
        load("spatial:process=realistc")

"""The numbers of a theory run, those that derive from others, and the named settings. Imports no NumPy."""

import dataclasses
import math
from dataclasses import dataclass

from ml_collections import ConfigDict

from posvit_tf.data.sets import check_sets
from posvit_tf.errors import UserError
from posvit_tf.fields import Field


def _number(default: int | float | str | None, doc: str, kind: type | None = None, **limits):
    """A number of a setting, which is a field of the configs, too."""
    return dataclasses.field(
        default=default, metadata={"field": Field(default, doc, kind, **limits)}
    )


@dataclass(frozen=True)
class Setting:
    """The simplified ViT on spatially structured data, in numbers; those of None derive.

    What each means stands beside it and in `FIELDS`.

    Raises:
        UserError: a value outside its range, or D, C and L that do not fit.
    """

    D: int = _number(64, "patches")
    C: int = _number(4, "patches a set")
    d: int = _number(32, "numbers a patch")
    N: int = _number(
        1000, "training samples; a step's fresh ones where the risk is the population's"
    )
    q: float = _number(0.125, "probability that a patch outside the signal set carries a sign")
    steps: int = _number(400, "updates")
    L: int | None = _number(None, "sets; unset: D / C", int)
    sigma: float | None = _number(None, "noise; unset: 1 / sqrt(d)", float)
    p: int = _number(3, "of the activation x^p + nu x, odd and 3 or more")
    nu: float = _number(0.1, "of the activation")
    sigma_A: float = _number(2.0, "the fixed diagonal of A")
    omega: float = _number(
        0.01, "standard deviation of v's start; alpha0 in v = alpha0 w* where it starts on w*"
    )
    eta_v: float = _number(2e-3, "step length of v")
    eta_A: float | None = _number(None, "step length of A; unset: 0.3 D L", float)
    partition: str = _number("contiguous", "the sets", choices=("contiguous", "random"))
    # The paper's c = 1 is the same model with v, omega and nu rescaled.
    output_scale: float | None = _number(None, "c in F = c sum_i act(o_i); unset: 1 / D", float)
    score_scale: float = _number(1.0, "t in softmax(t A); 1 / sqrt(d) as printed in the paper")

    def __post_init__(self):
        def derive(field, value):
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)

        sets = check_sets(self.D, self.C)
        derive("L", sets)
        if self.D != self.C * self.L:
            raise UserError(
                f"D={self.D} is not C*L={self.C}*{self.L}: set L to {sets} or leave it unset"
            )
        for field, least in (("d", 2), ("N", 1), ("steps", 0)):
            if getattr(self, field) < least:
                raise UserError(
                    f"{field}={getattr(self, field)} is too small: set {field}>={least}"
                )
        derive("sigma", self.d**-0.5)
        derive("eta_A", 0.3 * self.D * self.L)
        derive("output_scale", 1 / self.D)
        if self.p < 3 or self.p % 2 == 0:
            raise UserError(f"p={self.p} is not an odd number of 3 or more: set p to 3, 5 or 7")
        if not 0 <= self.q <= 1:
            raise UserError(f"q={self.q} is not a probability: set 0 <= q <= 1")
        for field in ("sigma", "nu", "omega", "eta_v", "eta_A", "output_scale", "score_scale"):
            if not 0 <= getattr(self, field) < math.inf:
                raise UserError(f"{field}={getattr(self, field)} is out of range: set {field}>=0")
        if not math.isfinite(self.sigma_A):
            raise UserError(f"sigma_A={self.sigma_A} is not finite: set it to about 2")
        if self.partition not in FIELDS["partition"].choices:
            raise UserError(
                f"partition={self.partition!r} is unknown: set it to contiguous or random"
            )


FIELDS = {field.name: field.metadata["field"] for field in dataclasses.fields(Setting)}

SETTINGS = {
    "tiny": dict(D=32, C=4, d=16, N=1000, q=0.125, steps=300),
    "small": dict(D=64, C=4, d=32, N=1000, q=0.125, steps=400),
    "hard": dict(D=128, C=4, d=32, N=4000, q=0.125, steps=250),
    # The paper's figure 4; its printed q = log(100)/10 does not give its curve, half of it does.
    "figure4": dict(D=10, C=2, d=100, N=1000, q=math.log(100) / 20, steps=400),
    # For the population risk, at kappa = q D / C^2 = 0.5; the rates keep the three events apart.
    "population": dict(
        D=256,
        C=8,
        d=256,
        N=1024,
        q=0.125,
        steps=300,
        nu=1e-3,
        sigma_A=1.5,
        omega=0.03,
        eta_v=1e-3,
        eta_A=500.0,
    ),
}

# For Gaussian patches; q has no part in them.
GAUSSIAN_SETTINGS = {
    # nu is large as the model, too, has to be nearly linear
    "near_linear": dict(D=36, C=4, d=16, N=16_000, q=0.0, steps=60, eta_A=10.0, nu=3.0),
    "cubic": dict(D=16, C=4, d=16, N=16_000, q=0.0, steps=300, eta_A=10.0),
}
LINEAR = {"near_linear": 100.0, "cubic": 0.0}  # weight of u in the label's phi(u) = u^3 + linear u


def name_of(setting: Setting) -> str:
    """The name of a setting up to its kind of partition, `custom` where numbers were overridden."""
    named = {**SETTINGS, **GAUSSIAN_SETTINGS}
    same = (
        name
        for name, numbers in named.items()
        if Setting(**numbers, partition=setting.partition) == setting
    )
    return next(same, "custom")


def from_config(config: ConfigDict) -> Setting:
    """The `Setting` of a config that has its fields."""
    return Setting(**{name: config[name] for name in FIELDS})

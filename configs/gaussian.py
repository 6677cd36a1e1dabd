"""Gaussian patches with a convolution's label: generalisation without patch association.

The label is a sum over the sets of phi(u) = u^3 + linear u, u the set's response to one filter.
Where phi is nearly linear the sets do not matter: the model generalises and its attention matrix
stays random (paper, figure 2). Where phi is cubic the sets do matter.

    posvit --config=gaussian                     nearly linear
    posvit --config=gaussian:setting=cubic       16 patches in four 2x2 blocks, the paper's

Arguments
    setting  near_linear, cubic; every number of it is an override

Cost: near_linear 10, cubic 40 CPU-seconds for 5 seeds.
Expect: near_linear error .025 with overlap .12 (chance .086); cubic .04 with overlap .94: a free
matrix trained this long associates, unlike the paper's picture of P^T P.
"""

from ml_collections import ConfigDict

from posvit_tf.config import make, parse_arguments
from posvit_tf.theory.settings import GAUSSIAN_SETTINGS, LINEAR


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, setting=tuple(GAUSSIAN_SETTINGS))
    return make("gaussian", linear=LINEAR[args.setting], **GAUSSIAN_SETTINGS[args.setting])

"""A learned attention matrix makes a new feature on the same sets cheap to learn.

A is learned on one feature w*. Then w* changes and the sets stay: with A frozen a few samples are
enough, from scratch or under uniform attention they are not (paper, claims 5.1 and 5.2).

    posvit --config=transfer
    posvit --config=transfer:setting=tiny --config.largest_n=128

Arguments
    setting  tiny, small, hard: of the data and the rates; every number of it is an override

Cost: small 90 CPU-seconds for 5 seeds.
Expect: medians over 5 seeds: at 16 samples frozen A .003, from scratch .2; at 512 uniform
attention .07.
"""

from ml_collections import ConfigDict

from posvit_tf.config import make, parse_arguments
from posvit_tf.theory.settings import SETTINGS


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, setting=("small", "tiny", "hard"))
    return make("transfer", **SETTINGS[args.setting])

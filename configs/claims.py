"""The paper's claims, each with its setting, what was found over the seeds, and whether it holds.

A claim that fails at these finite sizes is shown as failing (paper, section 4).

    posvit --config=claims

Cost: 300 CPU-seconds for 5 seeds.
Expect: a line a claim, and the table as claims.md in the workdir; 10 of 12 rows hold, GLM on small
and Fig. 2 cubic fail.
"""

from ml_collections import ConfigDict

from posvit_tf.config import make, parse_arguments


def get_config(arg: str = "") -> ConfigDict:
    parse_arguments(arg)
    return make("claims")

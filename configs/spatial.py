"""The simplified ViT learns which patches belong together, by gradient descent alone.

Patches are split into hidden sets; one set, drawn anew for each sample, carries the label. A linear
rule cannot tell it from the noise, a model that attends within the sets can (paper, sections 1-4).
The sets are used to draw the data and to check the result, never to train or to stop.

    posvit --config=spatial                              N samples, Gaussian starts
    posvit --config=spatial:setting=hard --config.partition=random
    posvit --config=spatial:process=idealised            population risk, v on w*, A_ij = 0
    posvit --config=spatial:process=semi_idealised       v held on w*, A alone learned
    posvit --config=spatial:setting=figure4              the paper's figure 4

Arguments
    process  realistic, idealised, semi_idealised
    setting  tiny, small, hard, figure4, population; auto is population for the idealised process
             and small for the others. Its numbers are overrides: --config.D=96 --config.q=.1

Cost: tiny 6, small 13, hard 40, figure4 10 seconds for 5 seeds on two idle cores, without start-up; idealised
2 minutes.
Expect: test error tiny .001, small .005, hard .01 where the best linear rule errs .02, .07, .16;
the sets found exactly by every seed.
"""

from ml_collections import ConfigDict

from posvit_tf.config import make, parse_arguments
from posvit_tf.tasks.associate import PROCESS
from posvit_tf.theory.settings import SETTINGS


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, process=PROCESS.choices, setting=("auto", *SETTINGS))
    name = args.setting
    if name == "auto":
        name = "population" if args.process == "idealised" else "small"
    return make("associate", process=args.process, **SETTINGS[name])

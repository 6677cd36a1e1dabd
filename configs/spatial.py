"""The simplified ViT learns which patches belong together, by gradient descent alone.

Patches are split into hidden sets; one set, drawn anew for each sample, carries the label. A linear
rule cannot tell it from the noise, a model that attends within the sets can (paper, sections 1-4).
The sets are used to draw the data and to check the result, never to train or to stop.

    python main.py --config=spatial                              N samples, Gaussian starts
    python main.py --config=spatial:setting=hard --config.partition=random
    python main.py --config=spatial:process=idealised            population risk, v on w*, A_ij = 0
    python main.py --config=spatial:process=semi_idealised       v held on w*, A alone learned
    python main.py --config=spatial:setting=figure4              the paper's figure 4

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

from posvit_tf.config import CHOICES, parse_arguments
from posvit_tf.theory.settings import SETTINGS, config_fields


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, process=CHOICES["process"], setting=("auto", *SETTINGS))
    name = args.setting
    if name == "auto":
        name = "population" if args.process == "idealised" else "small"
    return ConfigDict(
        dict(
            task="associate",
            seed=0,
            seeds=5,
            process=args.process,
            **config_fields(SETTINGS[name]),
        )
    )

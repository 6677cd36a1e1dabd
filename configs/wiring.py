"""How positions enter a ViT, one thing changed at a time, and what each kind of attention gains by it.

A ViT with positional attention as it stands; its position table started smaller, or also added to
the tokens; its maps started local; and free, uniform and content attention beside it. The content-free
kinds and content attention are compared from random and from local initial maps, and the recipe that
came out best with its maps fixed, and with one and a half times the epochs: about content's time.

    posvit --config=wiring:scale=laptop,plan     what it would cost here
    posvit --config=wiring:scale=laptop          10,000 images, 2 epochs, 3 seeds
    posvit --config=wiring                       the paper's size: needs accelerators

Arguments
    scale  paper (its small ViT, 200 epochs on all training images, 5 seeds; the paper itself shows no
           such comparison) or laptop (3 seeds, the best weights on the eval split)
    plan   measure and tell the runs, steps, FLOPs and hours, and stop

Cost: laptop 10 to 40 minutes on two cores.
Expect: local maps ahead of all others; a small or an added table behind the plain one.
"""

from ml_collections import ConfigDict

from posvit_tf.config import parse_arguments
from posvit_tf.tasks.sweep import ARGUMENTS, of_scale

VARIANTS = {  # {more}: one and a half times the epochs of the others
    "content": "attention=content",
    "positional": "attention=positional",
    "positional, P from std .02": "attention=positional model.position_std=0.02",
    "positional, P added": "attention=positional model.add_positions=true",
    "free": "attention=free",
    "uniform": "attention=uniform",
    "positional, local maps": "attention=positional model.initial_maps=local",
    "positional, best recipe": "attention=positional,recipe=best",
    "positional, best recipe, maps fixed": "attention=positional,recipe=best train.freeze_attention=true",
    "positional, best recipe, 1.5 times the epochs": "attention=positional,recipe=best train.epochs={more}",
    "free, local maps": "attention=free model.initial_maps=local",
    "content, best recipe": "attention=content,recipe=best",
}


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, **ARGUMENTS)
    laptop = args.scale == "laptop"
    size = "nano" if laptop else "small"
    return of_scale(
        args,
        title="Wiring of the positions and initial maps",
        paper_seeds=5,
        laptop="data.train_split=train[:10000] train.epochs=2",
        cells=tuple(
            dict(
                axes={"attention": name},
                command=f"cifar10:size={size},{words.format(more=3 if laptop else 300)}",
            )
            for name, words in VARIANTS.items()
        ),
        compare=("attention", "content"),
        plot="points",
    )

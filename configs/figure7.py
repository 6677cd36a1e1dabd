"""Positional against vanilla attention over seeds, as in the paper's figure 7.

The small ViT on CIFAR-10, CIFAR-100 and SVHN, once with maps made from the positions alone and once
with the usual ones, everything else alike.

    posvit --config=figure7:scale=laptop,plan    what it would cost here
    posvit --config=figure7:scale=laptop         CIFAR-10, nano, 10,000 images, 10 epochs
    posvit --config=figure7                      the paper's scale: needs accelerators

Arguments
    scale  paper (3 data sets, 10 seeds, 200 epochs on all training images, the last weights) or laptop
           (3 seeds, the best weights on the eval split)
    plan   measure and tell the runs, steps, FLOPs and hours, and stop

Cost: laptop about half an hour on two cores.
Expect: a box plot beside the paper's, and the differences by seed.
"""

from ml_collections import ConfigDict

from posvit_tf.config import parse_arguments
from posvit_tf.tasks.sweep import ARGUMENTS, of_scale

PAPER = {  # median, first and third quartile, in %
    ("cifar10", "content"): (90.22, 89.88, 90.40),
    ("cifar10", "positional"): (90.53, 90.33, 90.99),
    ("cifar100", "content"): (67.99, 67.62, 68.16),
    ("cifar100", "positional"): (67.94, 67.87, 68.44),
    ("svhn", "content"): (98.23, 97.60, 98.54),
    ("svhn", "positional"): (97.31, 96.67, 97.84),
}


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, **ARGUMENTS)
    laptop = args.scale == "laptop"
    size = "nano" if laptop else "small"
    return of_scale(
        args,
        title="Positional and vanilla attention",
        paper_seeds=10,
        laptop="data.train_split=train[:10000] train.epochs=10",
        cells=tuple(
            dict(
                axes={"data": data, "attention": attention},
                command=f"{data}:size={size},attention={attention}",
                paper=PAPER[data, attention],
            )
            for data in (("cifar10",) if laptop else ("cifar10", "cifar100", "svhn"))
            for attention in ("positional", "content")
        ),
        compare=("attention", "content"),
        plot="boxes",
    )

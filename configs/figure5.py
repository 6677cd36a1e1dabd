"""ViT, ResNet-18 and VGG-19 on images whose cells are permuted, as in the paper's figure 5.

One fixed permutation of square cells scrambles all images. A CNN relies on what is near, so smaller
cells cost it accuracy; a ViT whose patches fit into the cells learns what belongs together.

    posvit --config=figure5:scale=laptop,plan    what it would cost here
    posvit --config=figure5:scale=laptop         CIFAR-10, 10,000 images, 6 epochs
    posvit --config=figure5                      the paper's scale: needs accelerators

Arguments
    scale  paper (CIFAR-100, cell sides 2 to 32, patch 2, full widths, 200 epochs on all training images,
           5 seeds) or laptop (cell sides 4, 8 and 32, nano ViT of patch 4, CNNs of a quarter of the
           width, 3 seeds); a cell of 32 pixels is the whole image, as it was
    plan   measure and tell the runs, steps, FLOPs and hours, and stop

Cost: laptop about 90 minutes on two cores of a shared machine.
Expect: the CNNs fall as the cells get smaller, the ViT stays where it was.
"""

from ml_collections import ConfigDict

from posvit_tf.config import parse_arguments
from posvit_tf.tasks.sweep import ARGUMENTS, of_scale

PAPER = {  # accuracy in % by cell side
    "resnet18": {2: 57.3, 4: 66.2, 8: 73.3, 16: 78.4, 32: 79.9},
    "vgg19": {2: 46.7, 4: 57.1, 8: 66.6, 16: 72.9, 32: 76.2},
    "vit": {2: 63.6, 4: 63.6, 8: 63.7, 16: 63.6, 32: 63.5},
}


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, **ARGUMENTS)
    laptop = args.scale == "laptop"
    base = "cifar10:size=nano" if laptop else "cifar100:size=small"
    patch = 4 if laptop else 2
    return of_scale(
        args,
        title="Permuted cells: ViT and CNNs",
        paper_seeds=5,
        laptop="data.train_split=train[:10000] train.epochs=6",
        cells=tuple(
            dict(
                axes={"model": model, "cell side": side},
                command=f"{base},model={model}"
                + (f",attention=content,patch={patch}" if model == "vit" else "")
                + f" data.cell_size={side}",
                paper=(PAPER[model][side],),
            )
            for model in PAPER
            for side in ((4, 8, 32) if laptop else (2, 4, 8, 16, 32))
        ),
        compare=("cell side", 32),
        plot="lines",
    )

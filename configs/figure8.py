"""Maps of ViTs trained on permuted images, before and after the inverse permutation (figure 8).

One fixed permutation scrambles the patches of all images. What a ViT then learns of their places
looks like noise, until the inverse permutation brings it back to where the patches came from: if
it looks local there, the structure was learned from the data. Trained on plain and on permuted
images: a vanilla ViT, whose position encodings are compared by cosine (P added, from std .02),
and one with positional attention, whose scores are shown.

    posvit --config=figure8:scale=laptop,plan    what it would cost here
    posvit --config=figure8:scale=laptop         CIFAR-10, nano, 10,000 images, 3 epochs
    posvit --config=figure8                      the paper's scale: needs accelerators

Arguments
    scale  paper (CIFAR-100, 200 epochs on all training images) or laptop; 3 seeds in both
    plan   measure and tell the runs, steps, FLOPs and hours, and stop

Cost: laptop about 20 minutes on two cores.
Expect: accuracies that the permutation does not change; the same correlation of the maps with
nearness for plain images and after the inverse permutation, and none as found.
"""

from ml_collections import ConfigDict

from posvit_tf.config import parse_arguments
from posvit_tf.tasks.sweep import ARGUMENTS, of_scale


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, **ARGUMENTS)
    laptop = args.scale == "laptop"
    base = "cifar10:size=nano" if laptop else "cifar100:size=small"
    return of_scale(
        args,
        title="What is learned of the places of permuted patches",
        paper_seeds=3,
        laptop="data.train_split=train[:10000] train.epochs=3",
        cells=tuple(
            dict(
                axes={"model": model, "images": images},
                command=f"{base},attention={attention} data.cell_size={cell_size}",
            )
            for model, attention in (("vanilla", "content"), ("positional", "positional"))
            for images, cell_size in (("plain", 0), ("permuted", 4))
        ),
        compare=("images", "plain"),
        plot="maps",
    )

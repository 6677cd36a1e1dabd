"""Your own pictures: a folder that holds a folder for each class.

    posvit --config=folder --config.data.data_dir=PICTURES
    posvit --config=folder:attention=content --config.data.data_dir=PICTURES

PICTURES/cats/*.jpg, PICTURES/dogs/*.jpg, ...: a tenth of each class becomes the eval split, another tenth
the test. Or PICTURES/train/cats/... with val (or validation, eval) and test beside train; what is missing of
these two is cut from train.

Arguments
    attention  positional, content (vanilla), free (a matrix a head), uniform (equal frozen maps)
    size       nano (0.3M parameters) or small (the paper's, 6M)

Fields of its own
    data.on_bad_file    stop (name the files that cannot be read, and stop) or skip (leave them out)
    data.image_size     SIDE or HEIGHT,WIDTH in pixels; unset: the median picture's, at most 192
    data.class_weights  balanced: rare classes count as much as frequent ones
    data.batch_size, data.crop_padding, model.patch_size  unset: chosen from the data, and told
    data.flip           false where a mirror image is something else, as with letters

Cost: as the size and the number of the pictures; the first run checks every file.
Expect: depends on your pictures; README, Your own pictures, shows a run on digits.
"""

from ml_collections import ConfigDict

from posvit_tf.config import load, parse_arguments
from posvit_tf.models.fields import ATTENTIONS


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, attention=tuple(ATTENTIONS), size=("nano", "small"))
    config = load(f"cifar10:size={args.size},attention={args.attention}")
    config.data.update(
        name="folder",
        train_split="train",
        eval_split="val",
        batch_size=None,
        eval_batch_size=128,
        crop_padding=None,
    )
    config.model.patch_size = None
    config.train.epochs = 50
    return config

"""Your own pictures: a folder that holds a folder for each class.

    python main.py --config=folder --config.data.data_dir=PICTURES
    python main.py --config=folder:attention=content --config.data.data_dir=PICTURES

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

from ml_collections import ConfigDict, config_dict

from posvit_tf.config import CHOICES, load, parse_arguments


def get_config(arg: str = "") -> ConfigDict:
    args = parse_arguments(arg, attention=CHOICES["model.attention"], size=("nano", "small"))
    config = load(f"cifar10:size={args.size},attention={args.attention}")
    with config.unlocked():
        del config.data.batch_size, config.data.crop_padding, config.model.patch_size
        config.data.update(
            name="folder",
            on_bad_file="stop",
            train_split="train",
            eval_split="val",
            test_split="test",
            batch_size=config_dict.placeholder(int),
            eval_batch_size=128,
            crop_padding=config_dict.placeholder(int),
        )
        config.model.patch_size = config_dict.placeholder(int)
        config.train.epochs = 50
    return config

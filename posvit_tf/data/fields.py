"""The fields of `config.data`. Imports no TensorFlow."""

from collections.abc import Mapping

from posvit_tf.fields import Field

COMMON = {
    "image_size": Field(
        None,
        "SIDE or HEIGHT,WIDTH in pixels; unset: as they are (folder: the median's, to 192)",
        str,
    ),
    "train_split": Field("train[:96%]", "what is trained on, as tensorflow-datasets writes it"),
    "eval_split": Field("train[96%:]", 'watched in training, picks the best weights; "": none'),
    "test_split": Field("test", "read once, at the end"),
    "batch_size": Field(128, "images of a micro-batch on all devices", int, least=1),
    "eval_batch_size": Field(500, "images evaluated at once on all devices", least=1),
    "crop_padding": Field(4, "pixels of black border from which crops are drawn", int, least=0),
    "flip": Field(True, "whether half of the images are mirrored in training"),
    "class_weights": Field(
        "", "balanced: each class counts equally in the training loss", choices=("", "balanced")
    ),
    "autoaugment": Field("", "policy of AutoAugment", choices=("", "cifar10", "svhn")),
    "cell_size": Field(
        0, "side in pixels of the cells that change places in all images; 0: none do", least=0
    ),
    "permutation_seed": Field(0, "of the order of the cells", least=0, bound=2**31),
    "permute_first": Field(False, "whether cells change places before augmentation, not after"),
}
DATA_DIR = Field("", "where it lies; unset: TFDS_DATA_DIR, then ~/tensorflow_datasets")
PREPARED = {"data_dir": DATA_DIR}
FOLDER = {
    "data_dir": DATA_DIR._replace(doc="the folder that holds a folder for each class"),
    "on_bad_file": Field(
        "stop", "what becomes of files that cannot be read", choices=("stop", "skip")
    ),
}
# name -> the module whose load(data) reads it, and the fields that it has beside COMMON
SOURCES = {
    "digits": ("posvit_tf.data.digits", {}),
    "cifar10": ("posvit_tf.data.prepared", PREPARED),
    "cifar100": ("posvit_tf.data.prepared", PREPARED),
    "svhn_cropped": ("posvit_tf.data.prepared", PREPARED),
    "folder": ("posvit_tf.data.folder", FOLDER),
}
NAME = Field("cifar10", "the data set", choices=tuple(SOURCES))


def declared(data: Mapping) -> dict[str, Field]:
    """The fields of the data set that `data`, a `config.data`, names."""
    name = data.get("name", NAME.default)
    _, own = SOURCES.get(name, SOURCES[NAME.default])  # a wrong name is told when it is checked
    return {"name": NAME, **own, **COMMON}

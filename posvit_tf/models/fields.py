"""The fields of `config.model`, and which of them go together. Imports no Keras."""

from collections.abc import Mapping

from posvit_tf.errors import UserError
from posvit_tf.fields import Field

# name -> a class of `posvit_tf.layers`, and what it is made with beside the heads
ATTENTIONS = {
    "positional": ("PositionalAttention", {}),
    "content": ("SelfAttention", {}),
    "free": ("OffDiagonalAttention", {}),
    "relative": ("RelativeAttention", {"grid": None}),  # the model's
    "uniform": ("OffDiagonalAttention", {"diagonal": 0.0, "std": 0.0, "train_map": False}),
}
NAMES = ("vit", "resnet18", "vgg19")

NAME = Field("vit", "a Vision Transformer, or a baseline of convolutions", choices=NAMES)
VIT = {
    "name": NAME,
    "attention": Field(
        "positional",
        "what the maps come from: the positions, the tokens (content: the vanilla ViT), a free matrix a "
        "head, a score an offset (relative), or nothing (uniform)",
        choices=tuple(ATTENTIONS),
    ),
    "positions": Field("learned", "the position table P", choices=("learned", "sincos", "none")),
    "position_std": Field(
        None, "standard deviation of P's start; unset: .02 for content, else 1", float, least=0
    ),
    "add_positions": Field(
        None,
        "whether P is added to the tokens; unset: for all but positional and relative attention",
        bool,
    ),
    "initial_maps": Field(
        "random",
        "attention maps at the start: as drawn, or each head at a cell beside the patch's own",
        choices=("random", "local"),
    ),
    "key_weights": Field(
        "none",
        "whether each token's values weigh by a key of its own, one a head or a channel; not with content",
        choices=("none", "head", "channel"),
    ),
    "gate": Field(False, "whether the mixed values go through a sigmoid gate of the token"),
    "patch_size": Field(None, "side of a patch in pixels; unset: from the images", int, least=1),
    "depth": Field(7, "blocks", least=1),
    "heads": Field(12, "attention heads a block", least=1),
    "width": Field(384, "numbers a token", least=1),
    "mlp_width": Field(384, "hidden width of a block's MLP", least=1),
    "pool": Field(
        "token", "what the head reads: a class token, or the mean patch", choices=("token", "mean")
    ),
    "dropout": Field(0.0, "share of values dropped in training", least=0, bound=1),
    "drop_path": Field(
        0.0, "share of examples that skip a branch of the last block", least=0, bound=1
    ),
}
CNN = {"name": NAME, "width": Field(64, "channels of the first stage", least=1)}


def declared(model: Mapping) -> dict[str, Field]:
    """The fields of the model that `model`, a `config.model`, names."""
    return VIT if model.get("name", "vit") == "vit" else CNN


def check(model: Mapping, cell_size: int, freeze_attention: bool) -> None:
    """Raises UserError for fields that do not go together.

    Args:
        model: `config.model`.
        cell_size: `config.data.cell_size`.
        freeze_attention: `config.train.freeze_attention`.
    """
    name = model["name"]
    if name != "vit" and model.keys() - CNN.keys():
        raise UserError(
            f"model.name={name} has other fields than this config's model: choose it by an argument, as in "
            f"--config=cifar10:model={name}"
        )
    kind = model.get("attention", name)
    if freeze_attention and kind not in ("positional", "free", "relative"):
        raise UserError(
            f"train.freeze_attention=true finds nothing to fix in {kind}: uniform maps are fixed, "
            "those of content depend on the image, and a CNN has none; set it to false, or choose "
            "attention=positional, free or relative"
        )
    if name != "vit":
        return
    if cell_size and (model["patch_size"] is None or cell_size % model["patch_size"]):
        raise UserError(
            f"data.cell_size={cell_size} is no multiple of model.patch_size={model['patch_size']}, and a "
            "cell of a ViT holds whole patches: choose one that is, or 0 for no permutation"
        )
    if model["width"] % model["heads"]:
        raise UserError(
            f"model.width={model['width']} is not divisible by model.heads={model['heads']}; "
            "choose heads that divide the width"
        )
    if (model["attention"], model["positions"]) == ("positional", "none"):
        raise UserError(
            "model.positions=none leaves model.attention=positional without maps, which are "
            "made from the positions; choose positions=learned or sincos, or another attention"
        )
    if model["attention"] == "content" and model["key_weights"] != "none":
        raise UserError(
            f"model.key_weights={model['key_weights']} has no part in model.attention=content, whose maps "
            "compare tokens already: set it to none, or choose another attention"
        )
    if model["initial_maps"] == "local":
        check_local_maps(model)


def check_local_maps(model: Mapping) -> None:
    """Raises UserError where maps cannot start local."""
    maps = "model.initial_maps=local"
    if model["attention"] == "uniform":
        raise UserError(
            f"{maps} makes no sense with model.attention=uniform, whose maps are equal and frozen; "
            "choose another attention, or initial_maps=random"
        )
    if model["attention"] in ("positional", "content") and model["positions"] != "learned":
        raise UserError(
            f"{maps} writes its own sines and cosines into the position table, which "
            f"model.positions={model['positions']} does not allow; choose positions=learned"
        )
    if (model["attention"], model["add_positions"]) == ("content", False):
        raise UserError(
            f"{maps} with model.attention=content needs the positions in the tokens; choose "
            "add_positions=true, or initial_maps=random"
        )

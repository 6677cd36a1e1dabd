"""From `cifar10:size=nano` and `train.epochs=3` to a checked ConfigDict.

Imports neither TensorFlow nor Keras, so that a mistake in a command shows at once.
"""

import ast
import difflib
import math
import runpy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

from ml_collections import ConfigDict

from posvit_tf.errors import UserError

CHOICES = {
    "task": ("classify", "associate", "transfer", "gaussian", "claims", "sweep"),
    "process": ("realistic", "idealised", "semi_idealised"),
    "partition": ("contiguous", "random"),
    "strategy": ("auto", "one", "mirrored", "multiworker", "tpu"),
    "precision": ("float32", "mixed_bfloat16", "mixed_float16"),
    "data.on_bad_file": ("stop", "skip"),
    "data.class_weights": ("", "balanced"),
    "data.autoaugment": ("", "cifar10", "svhn"),
    "model.name": ("vit", "resnet18", "vgg19"),
    "model.attention": ("positional", "content", "free", "uniform"),
    "model.positions": ("learned", "sincos", "none"),
    "model.initial_maps": ("random", "local"),
    "model.pool": ("token", "mean"),
    "optimizer.name": ("adamw", "adam", "sgd"),
}

# field: (least, bound), and least <= value < bound
RANGES = {
    "seed": (0, 2**31),
    "cpu_devices": (1, 65),
    "data.batch_size": (1, math.inf),
    "data.eval_batch_size": (1, math.inf),
    "data.crop_padding": (0, math.inf),
    "data.cell_size": (0, math.inf),
    "data.permutation_seed": (0, 2**31),
    "model.patch_size": (1, math.inf),
    "model.position_std": (0, math.inf),
    "model.depth": (1, math.inf),
    "model.heads": (1, math.inf),
    "model.width": (1, math.inf),
    "model.mlp_width": (1, math.inf),
    "model.dropout": (0, 1),
    "model.drop_path": (0, 1),
    "optimizer.learning_rate": (0, math.inf),
    "optimizer.final_learning_rate": (0, math.inf),
    "optimizer.warmup_epochs": (0, math.inf),
    "optimizer.weight_decay": (0, math.inf),
    "optimizer.clip_norm": (0, math.inf),
    "optimizer.ema_decay": (0, 1),
    "train.epochs": (0, math.inf),
    "train.steps": (0, math.inf),
    "train.accumulate": (1, math.inf),
    "train.label_smoothing": (0, 1),
    "eval.every_epochs": (1, math.inf),
    "checkpoint.every_epochs": (1, math.inf),
    "checkpoint.keep": (1, math.inf),
    "seeds": (1, math.inf),
    "workers": (1, math.inf),
    "largest_n": (16, math.inf),
    "linear": (0, math.inf),
    # These belong together: posvit_tf.theory.settings says what of them does not fit, and why.
    **dict.fromkeys("D C L d N q sigma p nu sigma_A omega".split(), (-math.inf, math.inf)),
    **dict.fromkeys("eta_v eta_A steps output_scale score_scale".split(), (-math.inf, math.inf)),
}

WANTED = {int: "int (a whole number)", float: "float (a number)", bool: "bool (true or false)"}


def paths() -> dict[str, Path]:
    """Returns name -> file of every config: those of this checkout, then those of ./configs."""
    folders = (Path.cwd() / "configs", Path(__file__).parents[1] / "configs")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("[!_]*.py"))}


def summaries() -> dict[str, str]:
    """Returns name -> first docstring line of every config."""
    texts = {name: ast.parse(path.read_text("utf-8")) for name, path in sorted(paths().items())}
    return {
        name: (ast.get_docstring(text) or "").partition("\n")[0] for name, text in texts.items()
    }


def load(name: str, overrides: Mapping[str, object] | Sequence[str] = ()) -> ConfigDict:
    """Loads configs/NAME.py, applies arguments and overrides, and checks the result.

    Args:
        name: `NAME` or `NAME:argument=value,word`; a bare word means `word=true`.
        overrides: `{"train.epochs": 3}` or `["train.epochs=3"]`; `none` unsets a placeholder.

    Returns:
        A locked ConfigDict.

    Raises:
        UserError: unknown config, argument or field, wrong type, value out of its range or choices.
    """
    file, _, argument = name.partition(":")
    known = paths()
    if file not in known:
        raise _unknown("config", file, known)
    config = runpy.run_path(str(known[file]))["get_config"](argument)
    config.name = name
    if not isinstance(overrides, Mapping):
        overrides = dict(_pair(override) for override in overrides)
    _override(config, overrides)
    _validate(config)
    return config.lock()


def split_overrides(argv: list[str]) -> tuple[list[str], list[str]]:
    """Splits argv into overrides, `FIELD=VALUE` also where it was two words, and the rest."""
    overrides, others, waiting = [], [], False
    for word in argv:
        if word.startswith("--config."):
            overrides.append(word.removeprefix("--config."))
            waiting = "=" not in word
        elif waiting and not word.startswith("--"):
            overrides[-1] += f"={word}"
            waiting = False
        else:
            others.append(word)
            waiting = False
    return overrides, others


def parse_arguments(text: str, **allowed: tuple[str, ...] | int | float | bool) -> SimpleNamespace:
    """Reads the part of a config's name after the colon.

    Args:
        text: `attention=content,patch=2`.
        allowed: argument -> its words, the default first; or a default of the type wanted.

    Returns:
        A namespace with every allowed argument.

    Raises:
        UserError: an argument or value that is not allowed.
    """
    defaults = {key: spec[0] if isinstance(spec, tuple) else spec for key, spec in allowed.items()}
    values = SimpleNamespace(**defaults)
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in allowed:
            raise _unknown("argument", key, allowed)
        value = _read(key, value if equals else "true", type(defaults[key]))
        if isinstance(allowed[key], tuple) and value not in allowed[key]:
            raise _unknown(key, value, allowed[key])
        setattr(values, key, value)
    return values


def _pair(override: str) -> tuple[str, str]:
    field, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"override {override!r} has no value; write {field}=VALUE")
    return field, value


def _fields(config: ConfigDict, prefix: str = "") -> Iterator[tuple[str, ConfigDict, str]]:
    """Yields (dotted field, the section that holds it, its key there)."""
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            yield from _fields(value, f"{prefix}{key}.")
        else:
            yield prefix + key, config, key


def _override(config: ConfigDict, overrides: Mapping[str, object]) -> None:
    places = {field: (section, key) for field, section, key in _fields(config)}
    for field, value in overrides.items():
        if field not in places:
            raise _unknown("field", field, places)
        section, key = places[field]
        # Only a placeholder is None before it is overridden.
        unset = section[key] is None and str(value).lower() == "none"
        section[key] = None if unset else _read(field, str(value), section.get_type(key))


def _read(field: str, text: str, kind: type) -> object:
    if kind is tuple:
        raise UserError(f"{field} is a list, which no flag sets; change the config's own file")
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise UserError(
            f"{field} wants {WANTED[kind]}, received {text!r}; give such a value"
        ) from None


def _validate(config: ConfigDict) -> None:
    values = {field: section[key] for field, section, key in _fields(config)}
    for field, value in values.items():
        if field in CHOICES and value not in CHOICES[field]:
            raise _unknown(field, value, CHOICES[field])
        if field in RANGES and value is not None:
            least, bound = RANGES[field]
            if not least <= value < bound:
                raise UserError(
                    f"{field}={value} is out of range; choose {least} <= {field} < {bound}"
                )
    if "model" in config:
        model = config.model
        if (model.name == "vit") != ("patch_size" in model):
            raise UserError(
                f"model.name={model.name} has other fields than this config's model: choose it by an "
                f"argument, as in --config=cifar10:model={model.name}"
            )
        if model.name == "vit":
            _validate_vit(model, config.data.cell_size)
        kind = model.get("attention", model.name)
        if config.train.freeze_attention and kind not in ("positional", "free"):
            raise UserError(
                f"train.freeze_attention=true finds nothing to fix in {kind}: uniform maps are fixed, "
                "those of content depend on the image, and a CNN has none; set it to false, or choose "
                "attention=positional or free"
            )


def _validate_vit(model: ConfigDict, cell_size: int) -> None:
    if cell_size and (model.patch_size is None or cell_size % model.patch_size):
        raise UserError(
            f"data.cell_size={cell_size} is no multiple of model.patch_size={model.patch_size}, and a "
            "cell of a ViT holds whole patches: choose one that is, or 0 for no permutation"
        )
    if model.width % model.heads:
        raise UserError(
            f"model.width={model.width} is not divisible by model.heads={model.heads}; "
            "choose heads that divide the width"
        )
    if (model.attention, model.positions) == ("positional", "none"):
        raise UserError(
            "model.positions=none leaves model.attention=positional without maps, which are "
            "made from the positions; choose positions=learned or sincos, or another attention"
        )
    if model.initial_maps == "local":
        _validate_local_maps(model)


def _validate_local_maps(model: ConfigDict) -> None:
    maps = "model.initial_maps=local"
    if model.attention == "uniform":
        raise UserError(
            f"{maps} makes no sense with model.attention=uniform, whose maps are equal and frozen; "
            "choose another attention, or initial_maps=random"
        )
    if model.attention != "free" and model.positions != "learned":
        raise UserError(
            f"{maps} writes its own sines and cosines into the position table, which "
            f"model.positions={model.positions} does not allow; choose positions=learned"
        )
    if (model.attention, model.add_positions) == ("content", False):
        raise UserError(
            f"{maps} with model.attention=content needs the positions in the tokens; choose "
            "add_positions=true, or initial_maps=random"
        )


def _unknown(what: str, word: str, known: Iterable[str]) -> UserError:
    known = list(known)
    near = difflib.get_close_matches(word, known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if len(known) <= 12 or not near:  # a long list helps only where nothing is near
        hint += f"choose from {', '.join(known)}"
    return UserError(f"unknown {what} {word!r}: {hint.strip()}")

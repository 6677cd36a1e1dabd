"""From `cifar10:size=nano` and `train.epochs=3` to a checked ConfigDict.

Imports neither TensorFlow nor Keras, so that a mistake in a command shows at once.
"""

import ast
import importlib.resources
import runpy
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

from ml_collections import ConfigDict, config_dict

from posvit_tf import task
from posvit_tf.errors import UserError, unknown
from posvit_tf.fields import Field, flat

WANTED = {
    int: "int (a whole number)",
    float: "float (a number)",
    bool: "bool (true or false)",
    str: "str (text)",
    tuple: "tuple (a list)",
}


def paths() -> dict[str, Path]:
    """Returns name -> file of every config: those of ./configs, and those of the package."""
    own = Path(str(importlib.resources.files("posvit_tf.configs")))
    folders = (Path.cwd() / "configs", own)
    return {path.stem: path for folder in folders for path in sorted(folder.glob("[!_]*.py"))}


def docstring(path: Path) -> str:
    """What a config's file says of itself."""
    try:
        return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"{path} is no Python file ({error}): mend it") from None


def summaries() -> dict[str, str]:
    """Returns name -> first docstring line of every config."""
    return {name: docstring(path).partition("\n")[0] for name, path in sorted(paths().items())}


def file_of(name: str) -> Path:
    """The file of a config: of one that `paths` knows, or one that the name is the path of.

    Args:
        name: as for `load`.

    Raises:
        UserError: there is none.
    """
    file = name.partition(":")[0]
    if file.endswith(".py"):
        path = Path(file).expanduser()
        if not path.is_file():
            raise UserError(
                f"{path} is not there: name the file of a config, or one that is listed"
            )
        return path
    known = paths()
    if file not in known:
        raise unknown("config", file, known)
    return known[file]


def load(name: str, overrides: Mapping[str, object] | Sequence[str] = ()) -> ConfigDict:
    """Loads a config, applies arguments and overrides, and checks the result.

    Args:
        name: `NAME` or `NAME:argument=value,word`; a bare word means `word=true`. NAME is one of `paths`,
            or the path of a .py file.
        overrides: `{"train.epochs": 3}` or `["train.epochs=3"]`; `none` unsets a placeholder.

    Returns:
        A locked ConfigDict.

    Raises:
        UserError: unknown config, argument or field, wrong type, value out of its range or choices.
    """
    path = file_of(name)
    try:
        config = runpy.run_path(str(path))["get_config"](name.partition(":")[2])
    except UserError:
        raise
    except Exception as error:  # it is the user's own program
        where = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][-1]
        raise UserError(
            f"{path} gives no config ({type(error).__name__}: {error}, line {where}): it needs a "
            'get_config(arg="") that returns a ConfigDict, as posvit_tf/configs/digits.py has'
        ) from error
    if not isinstance(config, ConfigDict):
        raise UserError(f"{path}: get_config returned {type(config).__name__}: return a ConfigDict")
    config.unlock()
    config.name = name
    if not isinstance(overrides, Mapping):
        overrides = dict(_pair(override) for override in overrides)
    if "task" in config:
        complete(config)
        override(config, overrides)
        complete(config)  # by the fields of the model and data set that were chosen last
        validate(config)
    else:
        override(config, overrides)
    return config.lock()


def make(name: str, **changes) -> ConfigDict:
    """The fields of a task at their defaults, with some changed: what a config's file returns.

    Args:
        name: of the task, one of `posvit_tf.task.TASKS`.
        changes: field -> value, and section -> a dict of such. None unsets one that can derive.

    Raises:
        UserError: an unknown task or field.
    """
    declared = task.find(name).declared(changes)
    for field in flat(changes):
        if field not in flat(declared):
            raise unknown("field", field, flat(declared))
    config = ConfigDict({"task": name})
    _fill(config, declared, changes)
    return config


def complete(config: ConfigDict) -> None:
    """Gives a config the fields of its task that it lacks, at their defaults."""
    _fill(config, task.find(config.task).declared(config), {})


def _fill(config: ConfigDict, declared: Mapping, changes: Mapping) -> None:
    for key, field in declared.items():
        if not isinstance(field, Field):
            if key not in config:
                config[key] = ConfigDict()
            _fill(config[key], field, changes.get(key, {}))
        elif key not in config:
            value = changes.get(key, field.default)
            # A reference keeps its type where it is, or becomes, None.
            config[key] = config_dict.FieldReference(value, field.kind) if field.kind else value


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
            raise unknown("argument", key, allowed)
        value = _read(key, value if equals else "true", type(defaults[key]))
        if isinstance(allowed[key], tuple) and value not in allowed[key]:
            raise unknown(key, value, allowed[key])
        setattr(values, key, value)
    return values


def override(config: ConfigDict, overrides: Mapping[str, object]) -> None:
    """Sets fields by their dotted names.

    Raises:
        UserError: an unknown field, or a value of another type.
    """
    known = flat(config)
    for field, value in overrides.items():
        if field not in known:
            raise unknown("field", field, known)
        *sections, key = field.split(".")
        section = config
        for name in sections:
            section = section[name]
        # Only a placeholder is None before it is overridden.
        unset = section[key] is None and str(value).lower() == "none"
        section[key] = None if unset else _read(field, str(value), section.get_type(key))


def _pair(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"override {text!r} has no value; write {field}=VALUE")
    return field, value


def _read(field: str, text: str, kind: type) -> object:
    if kind is tuple:
        raise UserError(f"{field} is a list, which no flag sets; change the config's own file")
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise UserError(
            f"{field} wants {WANTED[kind]}, received {text!r}; give such a value"
        ) from None


def validate(config: ConfigDict) -> None:
    """Raises UserError for a value outside its field's choices or range, and for fields at odds."""
    module = task.find(config.task)
    declared, values = flat(module.declared(config)), flat(config)
    for name, field in declared.items():
        value = values[name]
        if value is None:
            continue
        if field.choices and value not in field.choices:
            raise unknown(name, value, field.choices)
        kind = field.kind or type(field.default)
        if type(value) is not kind:
            raise UserError(f"{name} wants {WANTED[kind]}, received {value!r}; give such a value")
        if kind in (int, float) and not field.least <= value < field.bound:
            raise UserError(
                f"{name}={value} is out of range; choose {field.least} <= {name} < {field.bound}"
            )
    module.check(config)
    for name in values.keys() - declared.keys() - {"task", "name"}:
        raise UserError(f"{config.name}: nothing reads the field {name}: remove it")

import pytest

from posvit_tf import config
from posvit_tf.errors import UserError


def test_arguments_and_overrides_reach_their_fields():
    loaded = config.load(
        "cifar10:size=nano,attention=content,patch=2",
        ["train.epochs=3", "optimizer.learning_rate=1", "data.flip=false", "train.steps=7"],
    )
    assert (loaded.model.width, loaded.model.attention, loaded.model.patch_size) == (
        96,
        "content",
        2,
    )
    assert (loaded.train.epochs, loaded.data.flip, loaded.train.steps) == (3, False, 7)
    assert isinstance(loaded.optimizer.learning_rate, float)


def test_overrides_as_a_dict_and_none_for_a_placeholder():
    loaded = config.load("digits", {"train.epochs": 0, "train.steps": None, "init_from": "runs/a"})
    assert (loaded.train.epochs, loaded.train.steps, loaded.init_from) == (0, None, "runs/a")


def test_a_loaded_config_is_locked():
    with pytest.raises(AttributeError):
        config.load("digits").train.epoch = 3


def test_a_config_of_the_working_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.py").write_text(
        "from ml_collections import ConfigDict\n"
        "from posvit_tf.config import parse_arguments\n"
        "def get_config(arg=''):\n"
        "    return ConfigDict(vars(parse_arguments(arg, scale=False)))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert config.load("mine:scale").scale is True
    assert config.load("mine").scale is False


@pytest.mark.parametrize(
    ("name", "override", "parts"),
    [
        ("cifar", None, ["config 'cifar'", "did you mean cifar10"]),
        ("cifar10:sise=nano", None, ["argument 'sise'", "did you mean size", "attention"]),
        ("cifar10:size=tiny", None, ["size 'tiny'", "small, nano"]),
        ("cifar10:patch=two", None, ["patch", "int", "'two'"]),
        ("digits", "train.epoch=3", ["'train.epoch'", "train.epochs"]),
        ("digits", "lr=3", ["'lr'", "optimizer.learning_rate"]),
        ("digits", "train.epochs=3.5", ["train.epochs", "int", "'3.5'"]),
        ("digits", "train.epochs=none", ["train.epochs", "int", "'none'"]),
        ("digits", "train.steps=x", ["train.steps", "int", "'x'"]),
        ("digits", "data.flip=yes", ["data.flip", "true or false", "'yes'"]),
        ("digits:attention=content", "train.freeze_attention=true", ["nothing to fix in content"]),
        ("digits:attention=uniform", "train.freeze_attention=true", ["nothing to fix in uniform"]),
        ("digits", "seed", ["'seed'", "seed=VALUE"]),
        ("digits", "model.attention=local", ["model.attention 'local'", "positional, content"]),
        ("digits", "model.dropout=1", ["model.dropout=1.0", "< 1"]),
        ("digits", "data.batch_size=0", ["data.batch_size=0", "1 <="]),
        ("digits", "optimizer.learning_rate=nan", ["optimizer.learning_rate=nan"]),
        ("digits", "model.heads=5", ["model.width=64", "model.heads=5"]),
        ("digits", "model.positions=none", ["positions=none", "positional", "maps"]),
        ("digits:attention=uniform", "model.initial_maps=local", ["maps=local", "uniform"]),
        ("cifar10:recipe=best", "model.positions=sincos", ["maps=local", "positions=sincos"]),
        ("svhn:recipe=best,attention=content", "model.add_positions=false", ["maps=local", "add_"]),
        ("cifar10", "data.cell_size=2", ["data.cell_size=2", "model.patch_size=4"]),
        ("cifar10", "model.name=vgg19", ["model.name=vgg19", "--config=cifar10:model=vgg19"]),
        ("cifar10:model=vgg19,patch=2", None, ["model=vgg19", "patch"]),
    ],
)
def test_bad_input_is_one_line_that_names_it(name, override, parts):
    with pytest.raises(UserError) as error:
        config.load(name, [override] if override else [])
    message = str(error.value)
    assert "\n" not in message
    assert not [part for part in parts if part not in message], message


def test_a_model_of_convolutions_takes_any_cell_and_holds_its_own_fields_alone():
    loaded = config.load("cifar10:model=resnet18,size=nano", {"data.cell_size": 2})
    assert loaded.model.to_dict() == {"name": "resnet18", "width": 16}


def test_no_positions_are_fine_where_the_maps_do_not_need_them():
    loaded = config.load("digits:attention=content", {"model.positions": "none"})
    assert loaded.model.positions == "none"

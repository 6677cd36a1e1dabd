import keras
import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.training import checkpoint


@pytest.fixture
def variables():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    return checkpoint.named(model.variables, "model")


def test_names_survive_automatic_numbers(variables):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    assert list(checkpoint.named(model.variables, "model")) == list(variables)
    assert any("seed_generator_state" in name for name in variables)


def test_round_trip_is_exact(variables, tmp_path):
    arrays = checkpoint.values(variables)
    checkpoint.save(tmp_path / "a.npz", arrays, {"update": 7, "best": None})
    for v in variables.values():
        v.assign(v + 1)
    loaded, meta = checkpoint.load(tmp_path / "a.npz")
    checkpoint.assign(variables, loaded, "a.npz")
    assert meta == {"update": 7, "best": None}
    for name, value in checkpoint.values(variables).items():
        np.testing.assert_array_equal(value, arrays[name])


def test_truncated_newest_falls_back_with_a_warning(variables, tmp_path, capsys):
    for update in (1, 2):
        path = tmp_path / f"update_{update:09d}.npz"
        checkpoint.save(path, checkpoint.values(variables), {"update": update})
    path.write_bytes(path.read_bytes()[:-100])
    assert checkpoint.latest(tmp_path)[1]["update"] == 1
    assert str(path) in capsys.readouterr().err

    # set aside, so that it is not taken for the newest when old ones are deleted
    checkpoint.set_aside(tmp_path, 1)
    checkpoint.keep_newest(tmp_path, 1)
    assert {file.name for file in tmp_path.iterdir()} == {
        "update_000000001.npz",
        f"{path.name}.broken",
    }
    (tmp_path / "update_000000001.npz").write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint in .* can be read"):
        checkpoint.latest(tmp_path)


def test_failed_save_keeps_the_one_before_and_names_the_path(variables, tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    checkpoint.save(path, checkpoint.values(variables), {"update": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(UserError, match=f"{path}.*No space left"):
        checkpoint.save(path, checkpoint.values(variables), {"update": 2})
    assert checkpoint.load(path)[1]["update"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_not_finite_is_not_saved(variables, tmp_path):
    arrays = checkpoint.values(variables)
    name = next(iter(arrays))
    arrays[name] = arrays[name] * np.nan
    with pytest.raises(UserError, match=f"{name}.*update 3"):
        checkpoint.save(tmp_path / "a.npz", arrays, {"update": 3})
    assert not list(tmp_path.iterdir())


def test_other_model_is_refused_by_name(variables):
    arrays = checkpoint.values(variables)
    name = next(iter(arrays))
    for changed in (arrays[name][:1], arrays[name].astype("float64")):
        with pytest.raises(UserError, match=name):
            checkpoint.assign(variables, arrays | {name: changed}, "x.npz")
    with pytest.raises(UserError, match=f"lacks {name}"):
        checkpoint.assign(variables, {k: v for k, v in arrays.items() if k != name}, "x.npz")
    with pytest.raises(UserError, match="unknown model/9"):
        checkpoint.assign(variables, arrays | {"model/9": arrays[name]}, "x.npz")

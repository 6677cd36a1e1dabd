import io

import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict
from PIL import Image

from posvit_tf.data import pack, packed, sources
from posvit_tf.errors import UserError


@pytest.fixture
def data(prepare, tmp_path):
    prepare("cifar10")
    splits = {"train_split": "train[:75%]", "eval_split": "train[75%:]", "test_split": "test"}
    return ConfigDict({"name": "cifar10", "data_dir": str(tmp_path), **splits})


def test_a_packed_data_set_is_the_prepared_one(data, tmp_path):
    pack.write(data, tmp_path / "packed.npz")
    found, expected = packed.load(data, tmp_path / "packed.npz"), sources.load(data)
    assert found.facts == expected.facts
    for role in ("train", "eval", "test"):
        for field in ("images", "labels"):
            one, other = (getattr(getattr(source, role), field) for source in (found, expected))
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_a_jpeg_differs_from_tensorflows_by_a_few_units():
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(
        file, "JPEG", quality=80
    )
    expected = tf.io.decode_image(file.getvalue()).numpy().astype(int)
    difference = np.abs(packed.decode(file.getvalue()) - expected)
    assert difference.max() <= 6 and difference.mean() < 1.5


def test_what_is_no_packed_data_set_is_named(data, tmp_path):
    path = tmp_path / "packed.npz"
    with pytest.raises(UserError, match="packed.npz is no whole packed data set .*pack"):
        packed.load(data, path)
    pack.write(data, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="no whole packed data set"):
        packed.load(data, path)
    path.write_bytes(whole)
    data.name = "cifar100"
    with pytest.raises(UserError, match="holds cifar10, but the config wants cifar100"):
        packed.load(data, path)

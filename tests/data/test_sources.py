import numpy as np
import pytest
from ml_collections import ConfigDict
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from posvit_tf.data import sources, splits
from posvit_tf.errors import UserError


def digits(train="train", evaluation="", test="test", image_size=None):
    splits = {"train_split": train, "eval_split": evaluation, "test_split": test}
    return sources.load(ConfigDict({"name": "digits", "image_size": image_size, **splits}))


def test_digits_hold_out_the_same_360():
    source = digits("train[:80%]", "train[80%:]")
    data, target = load_digits(return_X_y=True)
    _, images, _, labels = train_test_split(
        data, target, test_size=360, stratify=target, random_state=0
    )
    np.testing.assert_array_equal(source.test.labels, labels)
    np.testing.assert_allclose(
        source.test.images.reshape(360, 64) / 255, images / 16, atol=0.5 / 255
    )
    assert (len(source.train.labels), len(source.eval.labels)) == (1150, 287)
    assert source.train.images.shape[1:] == (8, 8, 1)
    assert (source.train.images.dtype, source.train.labels.dtype) == (np.uint8, np.int32)
    assert source.class_names == tuple("0123456789")


def test_images_are_resized_where_a_size_is_asked_for():
    small, large = digits("train[:50]"), digits("train[:50]", image_size="16")
    for split in ("train", "test"):
        before, after = getattr(small, split), getattr(large, split)
        np.testing.assert_array_equal(before.labels, after.labels)
        assert after.images.shape[1:] == (16, 16, 1) and after.images.dtype == np.uint8
        blocks = after.images.reshape(-1, 8, 2, 8, 2).mean(axis=(2, 4))  # (n,8,8)
        assert np.corrcoef(blocks.ravel(), before.images.ravel())[0, 1] > 0.95
    assert large.facts["image_shape"] == (16, 16, 1)


def test_train_and_eval_together_are_the_whole_split():
    whole, parts = digits(), digits("train[:-100]", "train[-100:]")
    assert whole.eval is None
    np.testing.assert_array_equal(
        np.concatenate([parts.train.images, parts.eval.images]), whole.train.images
    )


def test_splits_can_be_added():
    first, added = digits("train[:30]"), digits("train[:10]+train[10:30]")
    np.testing.assert_array_equal(first.train.images, added.train.images)


def test_moments_are_those_of_the_training_images():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 4, 5, 3), dtype=np.uint8)
    pixels[..., 2] = 255  # a flat channel must not give NaN
    mean, std = splits._moments(pixels)
    np.testing.assert_allclose(mean, pixels.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(std, pixels.std((0, 1, 2)), rtol=1e-12)


@pytest.mark.parametrize("bad", ["trian", "train[:96%", "train[:5000]", "all[:5%]", "train[::2]"])
def test_an_unknown_split_is_refused(bad):
    with pytest.raises(UserError) as error:
        digits(bad)
    assert f"data.train_split={bad!r} is not a split" in str(error.value)
    assert "train (1,437 examples), test (360 examples)" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("empty", ["train[10:5]", "train[:0]", "train[:0%]"])
def test_an_empty_training_split_is_refused(empty):
    with pytest.raises(UserError, match="holds no examples"):
        digits(empty)


@pytest.mark.parametrize(
    ("splits", "first", "second"),
    [
        (("train[:81%]", "train[80%:]", "test"), "train", "eval"),
        (("train[80%:]", "train[:81%]", "test"), "train", "eval"),
        (("train", "train", "test"), "train", "eval"),
        (("all", "", "test"), "train", "test"),
        (("train[:10]+test[5:6]", "", "test"), "train", "test"),
        (("train", "test[:10]", "test"), "eval", "test"),
    ],
)
def test_splits_that_share_examples_are_refused(splits, first, second):
    specs = dict(zip(("train", "eval", "test"), splits, strict=True))
    with pytest.raises(UserError) as error:
        digits(*splits)
    assert str(error.value).startswith(
        f"data.{first}_split={specs[first]!r} and data.{second}_split={specs[second]!r} share"
    )


def test_an_unknown_data_set_is_refused():
    with pytest.raises(UserError, match="data.name 'cifar11': did you mean cifar10"):
        sources.load(ConfigDict({"name": "cifar11"}))

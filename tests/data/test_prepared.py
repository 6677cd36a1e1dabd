import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import requests
import tensorflow_datasets as tfds
from ml_collections import ConfigDict

from posvit_tf.data import sources
from posvit_tf.errors import UserError


def answer(ok):
    return lambda url, **options: nullcontext(SimpleNamespace(ok=ok))


def load(name, data_dir=None):
    return sources.load(
        ConfigDict(
            {
                "name": name,
                "data_dir": str(data_dir or ""),
                "train_split": "train[:75%]",
                "eval_split": "train[75%:]",
                "test_split": "test",
            }
        )
    )


@pytest.fixture(autouse=True)
def requested(monkeypatch):
    """No test reaches the network; the addresses asked for."""
    urls = []

    def refuse(url, **options):
        urls.append(url)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    return urls


@pytest.mark.parametrize(
    ("name", "classes"), [("cifar10", 10), ("cifar100", 100), ("svhn_cropped", 10)]
)
def test_a_prepared_data_set_is_read_without_a_network(name, classes, prepare, tmp_path, requested):
    _, written = prepare(name, train=120)
    source = load(name, tmp_path)
    images, labels = written["train"]
    np.testing.assert_array_equal(source.train.images, images[:90])
    np.testing.assert_array_equal(source.train.labels, labels[:90])
    np.testing.assert_array_equal(source.eval.images, images[90:])
    np.testing.assert_array_equal(source.test.images, written["test"][0])
    assert (source.train.images.dtype, source.train.labels.dtype) == (np.uint8, np.int32)
    assert len(source.class_names) == classes
    np.testing.assert_allclose(source.mean, images[:90].mean((0, 1, 2)))
    np.testing.assert_allclose(source.std, images[:90].std((0, 1, 2)))
    assert not requested


def test_the_environment_says_where_it_is(prepare, tmp_path, monkeypatch):
    prepare("cifar10")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    assert len(load("cifar10").train.labels) == 30
    with pytest.raises(UserError, match="elsewhere"):  # the config wins
        load("cifar10", tmp_path / "elsewhere")


def test_a_home_directory_is_expanded(prepare, tmp_path, monkeypatch):
    prepare("cifar10")
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert len(load("cifar10", f"~/{tmp_path.name}").train.labels) == 30


def test_absent_data_and_no_network_is_one_line_with_three_ways_out(tmp_path, requested):
    started = time.monotonic()
    with pytest.raises(UserError) as error:
        load("cifar10", tmp_path)
    assert time.monotonic() - started < 1.5
    message = str(error.value)
    for part in (
        "cifar10 is not prepared in",
        str(tmp_path / "cifar10"),
        "run once where there is a network",
        "--config.data.data_dir",
        "TFDS_DATA_DIR",
    ):
        assert part in message
    assert "\n" not in message
    assert requested == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]
    assert not list(tmp_path.iterdir())


def test_a_network_that_hangs_is_waited_for_two_seconds(tmp_path, monkeypatch):
    def hang(url, **options):  # as a look-up of the host's name can, whatever the timeout
        time.sleep(4)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", hang)
    started = time.monotonic()
    with pytest.raises(UserError, match="within 2 s"):
        load("svhn_cropped", tmp_path)
    assert time.monotonic() - started < 3.5


def test_a_host_that_answers_with_an_error_is_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "get", answer(ok=False))
    with pytest.raises(UserError, match="does not answer"):
        load("cifar10", tmp_path)


@pytest.fixture
def online(monkeypatch):
    """The host answers; a download gives 40 black images of class 3 for each split."""
    monkeypatch.setattr(requests, "get", answer(ok=True))

    def examples():
        for i in range(40):
            yield i, {"id": str(i), "image": np.zeros((32, 32, 3), np.uint8), "label": 3}

    cls = tfds.builder_cls("cifar10")
    monkeypatch.setattr(
        cls, "_split_generators", lambda self, manager: {"train": examples(), "test": examples()}
    )
    return cls


def test_what_is_absent_is_downloaded_its_size_and_place_told_first(online, tmp_path, capsys):
    source = load("cifar10", tmp_path)
    assert (len(source.train.labels), set(source.train.labels)) == (30, {3})
    first = capsys.readouterr().out.splitlines()[0]
    assert "162.17 MiB" in first and str(tmp_path) in first
    load("cifar10", tmp_path)
    assert "downloading" not in capsys.readouterr().out


def test_a_download_that_fails_is_one_line(online, tmp_path, monkeypatch):
    def fail(self, manager):
        raise requests.ConnectionError("connection\nreset")

    monkeypatch.setattr(online, "_split_generators", fail)
    with pytest.raises(UserError, match=r"could not be downloaded into .* \(connection reset\)"):
        load("cifar10", tmp_path)


def test_a_directory_that_cannot_be_written_is_one_line(online, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Not a directory.*the right to write there"):
        load("cifar10", tmp_path / "file" / "data")


def missing_file(path):
    next(path.glob("*train*")).unlink()


def truncated_file(path):
    file = next(path.glob("*train*"))
    file.write_bytes(file.read_bytes()[:20000])


def garbled_file(path):
    file = next(path.glob("*train*"))
    file.write_bytes(file.read_bytes()[:1000] + bytes(50) + file.read_bytes()[1050:])


def truncated_info(path):
    file = path / "dataset_info.json"
    file.write_text(file.read_text()[:100])


def missing_info(path):
    (path / "dataset_info.json").unlink()


@pytest.mark.parametrize(
    "damage", [missing_file, truncated_file, garbled_file, truncated_info, missing_info]
)
def test_a_damaged_directory_is_named(damage, prepare, tmp_path):
    path, _ = prepare("cifar10")
    damage(path)
    with pytest.raises(UserError, match="cannot be read") as error:
        load("cifar10", tmp_path)
    assert str(tmp_path / "cifar10") in str(error.value)
    assert "\n" not in str(error.value) and "{{" not in str(error.value)


def test_a_label_outside_the_classes_is_refused(prepare, tmp_path):
    prepare("cifar10", label=lambda i, classes: -1 if i == 7 else i % classes)
    with pytest.raises(UserError, match=r"label -1 at index 7 .* outside its 10 classes"):
        load("cifar10", tmp_path)


def test_a_list_of_too_few_class_names_is_refused(prepare, tmp_path):
    path, _ = prepare("cifar10")
    (path / "label.labels.txt").write_text("cat\ndog\n")
    with pytest.raises(UserError, match=r"label 2 at index 2 .* outside its 2 classes"):
        load("cifar10", tmp_path)

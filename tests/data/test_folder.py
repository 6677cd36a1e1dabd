import itertools
import os
import re
import shutil
import signal

import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from posvit_tf.data import folder, images, scan, sources
from posvit_tf.data import splits as cuts
from posvit_tf.data.pictures import Pictures, decode, fit
from posvit_tf.data.splits import Split
from posvit_tf.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The verdicts of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def album(tmp_path):
    """album("train/2", 3): three small pictures, no two alike, in a class folder below the album."""
    root, count = tmp_path / "album", itertools.count(1)
    root.mkdir()

    def add(name, n):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            pixels = np.random.default_rng(next(count)).integers(0, 256, (9, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")

    add.root = root
    return add


def data(root, **changes):
    fields = {"name": "folder", "data_dir": str(root), "on_bad_file": "stop", "image_size": None}
    splits = {"train_split": "train", "eval_split": "val", "test_split": "test"}
    return ConfigDict(fields | splits | changes)


def cut(root):
    """Split -> names of its files below the album."""
    found = folder.find(data(root))
    return {
        name: [os.path.relpath(found.paths[n], root) for n in numbers]
        for name, (numbers, _) in found.splits.items()
    }


def test_classes_are_in_natural_order_and_only_pictures_below_them_count(album):
    for name in ("10", "2", "1", "b/deep/er", "A"):
        album(name, 3)
    root = album.root
    for junk in (".DS_Store", "1/.hidden.png", "1/Thumbs.db"):
        (root / junk).write_text("junk")
    (root / ".git").mkdir()
    (root / "A" / "round").symlink_to(root / "A")  # a circle
    (root / "A" / "more.png").symlink_to(root / "10" / "0.png")
    Image.open(root / "A/0.png").save(root / "A/0.bmp")  # the same name, another picture
    found = folder.find(data(root))
    assert found.class_names == ("1", "2", "10", "A", "b")
    labels = np.concatenate([labels for _, labels in found.splits.values()])
    np.testing.assert_array_equal(np.bincount(labels), [3, 3, 3, 5, 3])
    assert (found.height, found.width) == (8, 12)  # 9 x 12 in whole patches of 2


def test_the_cut_is_stratified_disjoint_complete_and_the_same_elsewhere(album, tmp_path):
    album("a", 10)
    album("b", 10)
    parts = cut(album.root)
    assert {name: len(files) for name, files in parts.items()} == {"train": 16, "val": 2, "test": 2}
    everything = sorted(itertools.chain(*parts.values()))
    assert everything == sorted(f"{c}/{i}.png" for c in "ab" for i in range(10))
    for files in (*parts.values(), parts["train"][:8], parts["train"][8:]):
        assert sum(file.startswith("a") for file in files) == len(files) / 2

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in reversed(everything):
        (elsewhere / file).parent.mkdir(exist_ok=True)
        shutil.copy(album.root / file, elsewhere / file)
    assert cut(elsewhere) == parts


def test_given_splits_are_kept_and_the_missing_one_is_cut(album):
    for name in ("train/a", "train/b", "validation/a", "validation/b"):
        album(name, 5)
    parts = cut(album.root)
    assert sorted(parts["val"]) == sorted(f"validation/{c}/{i}.png" for c in "ab" for i in range(5))
    assert (len(parts["train"]), len(parts["test"])) == (8, 2)
    assert {file.partition("/")[0] for file in parts["train"] + parts["test"]} == {"train"}
    album("test/a", 1)
    parts = cut(album.root)
    assert (len(parts["train"]), parts["test"]) == (10, ["test/a/0.png"])


def test_a_class_called_train_is_a_class(album):
    for name in ("train", "bus"):
        album(name, 3)
    assert folder.find(data(album.root)).class_names == ("bus", "train")


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({}, "holds 0 class folders (none): put"),
        ({"a": 3}, "holds 1 class folder (a): put"),
        ({"a": 3, "b": 0}, "class 'b' holds 0 whole pictures, too few for train and test and val"),
        ({"a": 1, "b": 9}, "class 'a' holds 1 whole picture, too few for train and test and val"),
        ({"train/a": 3, "train/b": 3, "c": 3}, "holds c, train: keep class folders alone, or train"),
        ({"val/a": 3, "test/a": 3}, "holds test, val: keep class folders alone, or train"),
        ({"train/a": 3, "val/a": 3, "eval/a": 3}, "holds eval, train, val: keep"),
        ({"train/a": 3, "train/b": 3, "val/c": 3}, "class 'c' is in val of"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused(album, places, message):
    for name, n in places.items():
        album(name, n)
    with pytest.raises(UserError, match=re.escape(message)) as error:
        folder.find(data(album.root))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [b"a\nb", b"\xff"])
def test_a_class_name_that_is_not_a_line_of_text_is_refused(name, album):
    album("a", 3)
    album(os.fsdecode(name), 3)
    with pytest.raises(UserError, match="is not one line of text") as error:
        folder.find(data(album.root))
    str(error.value).encode()  # can be printed


def test_links_that_lead_nowhere_are_told_and_pipes_passed_over(album, capsys):
    album("a", 3)
    album("b", 3)
    (album.root / "loop").symlink_to("loop")  # no class
    os.mkfifo(album.root / "a/pipe")
    (album.root / "a/to_pipe.png").symlink_to("pipe")
    (album.root / "a/loop.png").symlink_to("loop.png")
    (album.root / "b/dead.png").symlink_to("nothing")
    with pytest.raises(UserError, match="2 of 8 files in .*on_bad_file=skip"):
        folder.find(data(album.root))
    told = capsys.readouterr().err
    assert "a/loop.png: Too many levels" in told and "b/dead.png: No such file" in told


def test_a_missing_folder_and_a_file_are_told(tmp_path):
    (tmp_path / "file").touch()
    for path, message in (
        ("", "no pictures: name"),
        ("no", "does not exist"),
        ("file", "is no folder"),
    ):
        with pytest.raises(UserError, match=message):
            folder.find(data(tmp_path / path if path else ""))


@pytest.fixture
def spoilt(album):
    """Two classes of five and four files that cannot be read."""
    album("a", 5)
    album("b", 5)
    root = album.root
    whole = (root / "a/0.png").read_bytes()
    (root / "a/empty.jpg").touch()
    (root / "a/half.png").write_bytes(whole[: len(whole) // 2])
    (root / "b/notes.jpg").write_text("milk, bread")
    Image.open(root / "a/0.png").save(root / "b/scan.tif")
    return root


def test_unreadable_files_stop_the_run_or_are_left_out(spoilt, capsys):
    with pytest.raises(UserError, match=r"4 of 14 files in .*a/empty.jpg \(the file is empty\)"):
        folder.find(data(spoilt))
    names = (
        "a/empty.jpg: the file is empty",
        "a/half.png: ",
        "b/notes.jpg: not a whole",
        "b/scan.tif: not",
    )
    told = capsys.readouterr().err
    assert all(f"pictures: {spoilt}/{name}" in told for name in names)
    found = folder.find(data(spoilt, on_bad_file="skip"))
    assert sum(len(numbers) for numbers, _ in found.splits.values()) == 10
    assert "4 of 14 files left out" in capsys.readouterr().out


def test_the_verdict_is_kept_and_asked_again_only_for_what_changed(spoilt, monkeypatch):
    decoded = []
    monkeypatch.setattr(scan, "decode", lambda path: decoded.append(path.name) or decode(path))
    first = folder.find(data(spoilt, on_bad_file="skip"))
    assert len(decoded) == 14
    decoded.clear()
    again = folder.find(data(spoilt, on_bad_file="skip"))
    bad = {"empty.jpg", "half.png", "notes.jpg", "scan.tif"}
    assert set(decoded) == bad  # whoever mended their rights did not change them
    np.testing.assert_array_equal(first.digests, again.digests)
    assert (first.height, first.width) == (again.height, again.width)
    decoded.clear()
    os.utime(spoilt / "a/1.png", (1, 1))
    folder.find(data(spoilt, on_bad_file="skip"))
    assert set(decoded) == bad | {"1.png"}
    scan.cache_file(spoilt).write_text("{garbled")
    decoded.clear()
    folder.find(data(spoilt, on_bad_file="skip"))
    assert len(decoded) == 14


def test_a_killed_scan_keeps_the_parts_that_it_finished(album, monkeypatch):
    album("a", 10)
    files, asked = [f"a/{i}.png" for i in range(10)], itertools.count(1)
    monkeypatch.setattr(scan, "AT_ONCE", 4)
    monkeypatch.setattr(scan, "KEEP_SECONDS", 0)

    def killed_at_the_seventh(path):
        return decode(path) if next(asked) < 7 else os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(scan, "decode", killed_at_the_seventh)
    child = os.fork()
    if not child:
        scan.scan(album.root, files)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    decoded = []
    monkeypatch.setattr(scan, "decode", lambda path: decoded.append(path.name) or decode(path))
    assert not any(verdict.reason for verdict in scan.scan(album.root, files))
    assert sorted(decoded) == [f"{i}.png" for i in range(4, 10)]


def test_without_a_place_for_the_verdict_the_run_goes_on(album, tmp_path, capsys, monkeypatch):
    album("a", 3)
    album("b", 3)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    (tmp_path / "taken").touch()
    folder.find(data(album.root))
    assert "cannot be written" in capsys.readouterr().err


def test_files_outside_the_class_folders_are_told(album, capsys):
    for name in ("train/a", "train/b"):
        album(name, 3)
    album("train", 1)  # train/0.png
    (album.root / ".DS_Store").touch()
    folder.find(data(album.root))
    told = f"files in no class folder are not used: 1, the first {album.root / 'train/0.png'}"
    assert told in capsys.readouterr().err


def test_copies_in_train_and_test_are_told(album, capsys):
    for name in ("train/a", "train/b", "val/a", "test/b"):
        album(name, 3)
    folder.find(data(album.root))
    assert not capsys.readouterr().err
    shutil.copy(album.root / "train/a/1.png", album.root / "test/b/copy.png")
    folder.find(data(album.root))
    assert "train holds 1 of the 4 pictures of test, too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "shapes", "size"),
    [
        (None, [(8, 8)], (8, 8)),
        (None, [(28, 28)], (28, 28)),
        (None, [(1, 1)], (2, 2)),
        (None, [(3000, 4000), (3000, 4000), (4000, 3000)], (144, 192)),
        ("64", [(8, 8)], (64, 64)),
        ("48,64", [(8, 8)], (48, 64)),
    ],
)
def test_the_size_is_the_median_pictures_unless_set(wanted, shapes, size):
    assert folder.image_size(wanted, shapes) == size


@pytest.mark.parametrize("bad", ["0", "64,", "64x64", "-8", "big"])
def test_a_size_that_is_none_is_refused(bad):
    with pytest.raises(UserError, match="is not a size: write 64, or 48,64"):
        folder.image_size(bad, [(8, 8)])


@pytest.fixture
def splits(album):
    """The same eleven pictures as files and as an array."""
    album("a", 11)
    paths = np.array([str(album.root / "a" / f"{i}.png") for i in range(11)], object)
    labels = np.arange(11, dtype=np.int32)
    array = np.stack([fit(decode(path), 6, 8) for path in paths])
    return Split(Pictures(paths, paths, 6, 8), labels), Split(array, labels)


def test_files_are_drawn_and_evaluated_as_an_array_is(splits):
    files, array = splits
    np.testing.assert_array_equal(files.images[2:5], array.images[2:5])
    np.testing.assert_array_equal(files.images[np.array([7, 0])], array.images[[7, 0]])
    share = {"own": range(1, 2), "replicas": 2}
    options = {"batch_size": 4, "accumulate": 2, "seed": 3, "crop_padding": 1, "flip": True}
    pairs = [
        [images.train_dataset(s, **options, start_update=5, **share).take(3) for s in splits],
        [images.eval_dataset(s, batch_size=8, **share) for s in splits],
    ]
    for pair in pairs:
        assert pair[0].element_spec == pair[1].element_spec
        for a, b in zip(*(p.as_numpy_iterator() for p in pair), strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)


def test_many_files_are_left_where_they_are(album, monkeypatch):
    album("a", 6)
    album("b", 6)
    kept = sources.load(data(album.root))
    monkeypatch.setattr(folder, "IN_MEMORY", 0)
    monkeypatch.setattr(cuts, "SAMPLE", 4)
    read = sources.load(data(album.root))
    assert isinstance(kept.train.images, np.ndarray) and isinstance(read.train.images, Pictures)
    np.testing.assert_array_equal(kept.test.images, read.test.images[:])
    np.testing.assert_allclose(read.mean, kept.train.images[::2].mean((0, 1, 2)))
    assert kept.facts | {"mean": 0, "std": 0} == read.facts | {"mean": 0, "std": 0}

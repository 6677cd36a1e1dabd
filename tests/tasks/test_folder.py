"""From a folder of digits, some of them odd, to a trained model: main.py and nothing else."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import posvit_tf
from posvit_tf import trained
from posvit_tf.cli import main
from posvit_tf.data import folder, sources
from posvit_tf.errors import UserError
from tests.conftest import TINY

CLASSES = ("1", "2", "10")


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """The digits 1, 2 and 0 as files, 20 each, and a broken one; and the pixels of three odd ones."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", [])  # main sets it
    root, digits = tmp_path / "pictures", load_digits()
    odd = {}
    for name in CLASSES:
        (root / name).mkdir(parents=True)
        chosen = digits.images[digits.target == int(name) % 10][:20]
        for i, image in enumerate(np.uint8(chosen * 15)):
            picture, options = Image.fromarray(np.stack([image] * 3, axis=-1)), {}
            if i < 3:
                odd[f"{name}/{i}.png"] = np.asarray(picture)
            if i == 0:
                picture = picture.convert("L")
            elif i == 1:  # stored lying on its side, with the note to turn it
                options["exif"] = Image.Exif()
                options["exif"][0x0112] = 6
                picture = picture.transpose(Image.Transpose.ROTATE_90)
            elif i == 2:
                picture = picture.convert("RGBA")
            picture.save(root / name / f"{i}.png", **options)
    (root / "2" / "broken.png").write_bytes((root / "2/3.png").read_bytes()[:60])
    return root, odd


def test_a_folder_becomes_a_model(pictures, tmp_path, capsys, monkeypatch):
    root, odd = pictures
    fields = {**TINY, "train.epochs": 1, "data.data_dir": root, "data.class_weights": "balanced"}
    for field in ("train_split", "eval_split", "batch_size"):
        del fields[f"data.{field}"]
    flags = ["main.py", "--config=folder", *(f"--config.{k}={v}" for k, v in fields.items())]
    assert main([*flags, f"--workdir={tmp_path / 'a'}"]) == 2
    assert f"1 of 61 files in {root} cannot be read" in capsys.readouterr().err

    flags.append("--config.data.on_bad_file=skip")
    assert main([*flags, f"--workdir={tmp_path / 'a'}"]) == 0
    told, errors = capsys.readouterr()
    assert f"pictures: {root}/2/broken.png: " in errors and "1 of 61 files left out" in told
    assert "model.patch_size=2 data.batch_size=8 data.crop_padding=1" in told
    assert "data: folder, 8x8x3, 3 classes, 48 train / 6 eval / 6 test" in told

    model, class_names, config = posvit_tf.load(tmp_path / "a")
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    source = sources.load(config.data)
    assert class_names == source.class_names == CLASSES
    found = model.predict(source.test.images, verbose=0).argmax(axis=1)
    assert result["test"]["accuracy"] == np.mean(found == source.test.labels)
    files = folder.find(config.data)
    paths = [str(path.relative_to(root)) for path in map(type(root), files.paths)]
    ((images, named),) = files.open(np.array([paths.index(name) for name in odd]))
    np.testing.assert_array_equal(images, list(odd.values()))
    assert list(named) == [str(root / name) for name in odd]

    # what it leaves: a page, an export that was checked in a fresh process, names for new pictures
    page = (tmp_path / "a" / "report.html").read_text()
    assert "Confusion" in page and all(f">{name}<" in page for name in CLASSES)
    assert main(["posvit", "export", str(tmp_path / "a")]) == 0
    assert (tmp_path / "a/export/classes.txt").read_text().split() == list(CLASSES)
    capsys.readouterr()
    files = [str(root / name) for name in (*odd, "2/broken.png")]
    assert main(["posvit", "predict", str(tmp_path / "a/export"), *files, "--json"]) == 2
    *rows, broken = json.loads(capsys.readouterr().out)
    expected = model.predict(np.array(list(odd.values())), verbose=0).argmax(axis=1)
    assert [row["top"][0]["class"] for row in rows] == [CLASSES[k] for k in expected]
    assert broken["file"] == files[-1] and "broken.png" in broken["error"]

    # from files, not from memory: another pipeline, the same run to the bit
    monkeypatch.setattr(folder, "IN_MEMORY", 0)
    assert main([*flags, f"--workdir={tmp_path / 'b'}"]) == 0
    from_files = json.loads((tmp_path / "b" / "result.json").read_text())
    assert from_files["weights_sha256"] == result["weights_sha256"]
    assert from_files["test"] == result["test"]

    # Cut anew, it would judge the model by pictures that it was trained on.
    trained.load_with_data(tmp_path / "a")
    more = shutil.copytree(root / "1", root / "1" / "more")
    with pytest.raises(
        UserError, match=r"\(another number of eval images, number of test images\)"
    ):
        trained.load_with_data(tmp_path / "a")
    more.rename(root / "3")
    with pytest.raises(
        UserError, match=f"the run in {tmp_path / 'a'} \\(another class names, number"
    ):
        trained.load_with_data(tmp_path / "a")
    shutil.rmtree(root / "3")

    def then_gone(data, find=folder.find):
        found = find(data)
        (root / "1" / "4.png").unlink()
        return found

    monkeypatch.setattr(folder, "find", then_gone)
    capsys.readouterr()
    assert main([*flags, f"--workdir={tmp_path / 'c'}"]) == 2
    error = capsys.readouterr().err
    assert f"error: {root}/1/4.png: No such file or directory; it was whole" in error

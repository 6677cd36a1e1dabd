import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from posvit_tf.cli import main
from posvit_tf.data import sources


@pytest.fixture(scope="module")
def digits(tiny, tmp_path_factory):
    """Two pictures of digits, one of them stored on its side, a broken file and a text."""
    folder = tmp_path_factory.mktemp("digits")
    for name, image in zip(("a.png", "b.png"), sources.load(tiny().data).test.images, strict=False):
        Image.fromarray(image[..., 0]).save(folder / name)
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn me clockwise"
    with Image.open(folder / "a.png") as upright:
        upright.transpose(Image.Transpose.ROTATE_90).save(folder / "turned.png", exif=exif)
    (folder / "broken.png").write_bytes((folder / "a.png").read_bytes()[:60])
    (folder / "notes.txt").write_text("not a picture")
    return folder


def test_a_folder_is_predicted_and_a_broken_file_named(workdir, digits, capsys):
    export = workdir / "export"
    assert main(["posvit", "predict", str(export), str(digits), "--json"]) == 2
    told = capsys.readouterr()
    a, b, broken, turned = json.loads(told.out)
    assert told.err.startswith(f"error: {digits / 'broken.png'}: ")
    assert broken["file"].endswith("broken.png") and set(broken) == {"file", "error"}
    assert [guess["class"] for guess in turned["top"]] == [guess["class"] for guess in a["top"]]
    assert turned["top"][0]["probability"] == pytest.approx(a["top"][0]["probability"], abs=1e-6)
    run = tf.saved_model.load(str(export / "saved_model")).signatures["serving_default"]
    image = np.asarray(Image.open(digits / "b.png"))[None, ..., None]  # (1,8,8,1)
    probabilities = run(images=tf.constant(image))["probabilities"][0].numpy()
    assert [guess["class"] for guess in b["top"]] == [
        str(k) for k in np.argsort(-probabilities)[:5]
    ]
    np.testing.assert_allclose(
        [guess["probability"] for guess in b["top"]], np.sort(probabilities)[:-6:-1], atol=1e-6
    )

    assert main(["posvit", "predict", str(export), str(digits / "a.png")]) == 0
    best = a["top"][0]
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == str(digits / "a.png")
    assert float(second.split()[0]) == pytest.approx(best["probability"], abs=1e-4)
    assert second.split()[1] == best["class"]


def test_hidden_files_and_folders_are_no_pictures(workdir, tmp_path, capsys):
    for name in ("empty.png", ".hidden.png"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert main(["posvit", "predict", str(workdir / "export"), str(tmp_path), "--json"]) == 2
    (row,) = json.loads(capsys.readouterr().out)
    assert row["file"].endswith("/empty.png") and "is empty" in row["error"]


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_a_damaged_export_is_one_line(content, workdir, digits, tmp_path, capsys):
    model = shutil.copytree(workdir / "export", tmp_path / "copy") / "saved_model"
    if content is None:
        shutil.rmtree(model / "variables")
    else:
        (model / "saved_model.pb").write_bytes(content)
    assert main(["posvit", "predict", str(model.parent), str(digits / "a.png")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {model} is damaged or no model of")


def test_what_is_no_export_or_holds_no_picture_is_one_line(workdir, digits, tmp_path, capsys):
    assert main(["posvit", "predict", str(tmp_path), str(digits / "a.png")]) == 2
    assert f"error: {tmp_path} is no export" in capsys.readouterr().err
    assert main(["posvit", "predict", str(workdir / "export"), str(tmp_path)]) == 2
    assert f"error: {tmp_path} holds no picture" in capsys.readouterr().err

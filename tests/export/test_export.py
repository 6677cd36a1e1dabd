"""An export, from a run to what other programs get from it."""

import json
import re
import shutil
from base64 import b64decode
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import posvit_tf
from posvit_tf import cli, trained
from posvit_tf.data import pictures
from posvit_tf.errors import UserError
from posvit_tf.export import formats, write
from posvit_tf.models.vit import intermediates
from posvit_tf.training import run_files

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)


@pytest.fixture(scope="module")
def served(workdir):
    return tf.saved_model.load(str(workdir / "export" / "saved_model")).signatures


def blocks(card):
    return re.findall(r"```python\n(.*?)```", card.read_text(), re.DOTALL)


@pytest.fixture
def folder(workdir, tmp_path, monkeypatch):
    """The current folder is a copy of the export, with a picture in it."""
    copy = shutil.copytree(workdir / "export", tmp_path / "copy")
    Image.fromarray(np.uint8(np.random.default_rng(1).integers(0, 256, (40, 30, 3)))).save(
        copy / "picture.jpg"
    )
    monkeypatch.chdir(copy)
    return copy


def test_images_give_what_the_model_gives(workdir, served):
    model, class_names, _ = posvit_tf.load(workdir)
    run = served["serving_default"]
    outputs = run(images=tf.constant(IMAGES))
    assert {name: (v.dtype.name, v.shape[1:]) for name, v in outputs.items()} == {
        "logits": ("float32", (10,)),
        "probabilities": ("float32", (10,)),
        "label": ("int32", ()),
    }
    logits = model(IMAGES).numpy()
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(outputs["probabilities"], tf.nn.softmax(logits), atol=1e-5)
    np.testing.assert_array_equal(outputs["label"], logits.argmax(axis=1))
    for name, again in run(images=tf.constant(IMAGES)).items():
        np.testing.assert_array_equal(again, outputs[name])
    assert run(images=tf.constant(IMAGES[:0]))["logits"].shape == (0, 10)
    names = served["class_names"]()["class_names"].numpy()
    assert tuple(n.decode() for n in names) == class_names
    assert tuple((workdir / "export" / "classes.txt").read_text().splitlines()) == class_names


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 16, 16, 1), np.uint8), r"\[1,16,16,1\].*\[\?,8,8,1\]"),  # as many as 4 images
        (np.zeros((8, 8, 1), np.uint8), r"\[8,8,1\].*\[\?,8,8,1\]"),
        (np.zeros((1, 8, 8, 1), np.float32), "uint8.*float"),
    ],
)
def test_wrong_images_are_refused(served, images, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served["serving_default"](images=tf.constant(images))


def test_maps_are_constants_and_what_made_them_is_gone(workdir, served):
    model, _, _ = posvit_tf.load(workdir)
    saved = tf.saved_model.load(str(workdir / "export" / "saved_model"))
    assert len(saved.weights) == len(model.weights) - 1 - 2 * 4  # P; W_Q, W_K and biases
    assert not any(re.search("query|key|positions", v.name) for v in saved.weights)
    graph = served["serving_default"].graph.as_graph_def()
    nodes = [n for f in graph.library.function for n in f.node_def] + list(graph.node)
    assert Counter(n.op for n in nodes)["Softmax"] == 1  # of the probabilities
    assert not any(re.search("query|key|positions", n.name) for n in nodes)
    constants = [tf.make_ndarray(n.attr["value"].tensor) for n in nodes if n.op == "Const"]
    inner = intermediates(model)(IMAGES)
    # (H,N,N), and of the last block the class token's row (H,1,N)
    for needed in (inner["block_1/map"], inner["block_2/map"][:, :1]):
        same = [c for c in constants if c.shape == needed.shape]
        assert any(np.allclose(needed, c, rtol=1e-5, atol=1e-7) for c in same)


def test_encoded_pictures_go_through_the_whole_preprocessing(served, tmp_path):
    rng = np.random.default_rng(2)
    files = []
    for name, shape in (("a.jpg", (30, 40, 3)), ("b.png", (9, 20, 4)), ("c.png", (8, 8))):
        Image.fromarray(np.uint8(rng.integers(0, 256, shape))).save(tmp_path / name)
        files.append(tmp_path / name)
    images = [pictures.fit_channels(pictures.decode(file), (8, 8, 1)) for file in files]
    expected = served["serving_default"](images=tf.stack(images))
    found = served["encoded"](encoded=tf.constant([file.read_bytes() for file in files]))
    assert set(found) == set(expected)
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=0.05)  # a grey level
    none = served["encoded"](encoded=tf.constant([], tf.string))
    assert none["label"].shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="PNG"):
        served["encoded"](encoded=tf.constant(["no picture"]))


def as_tensorflow_serving(body, served):
    """What the REST interface makes of a request, for a signature with one input."""
    request = json.loads(body)
    run = served[request["signature_name"]]
    ((name, spec),) = run.structured_input_signature[1].items()
    values = [
        b64decode(v["b64"]) if isinstance(v, dict) else np.array(v, spec.dtype.as_numpy_dtype)
        for v in request["instances"]
    ]
    return run(**{name: tf.constant(values, spec.dtype)})


def test_the_lines_of_the_card_run(folder, served, capsys):
    zeros, load, layer, content, pixels, files = blocks(folder / "README.md")
    names = {}
    for lines in (zeros, load, layer, content):
        exec(lines, names)
        if lines in (load, layer):
            expected = served["serving_default"](images=tf.constant(names["images"]))
            np.testing.assert_array_equal(names["outputs"]["logits"], expected["logits"])
    label = int(names["outputs"]["label"][0])
    assert capsys.readouterr().out == f"{label}\n"  # the digits' names
    exec(pixels, names)
    outputs = as_tensorflow_serving(names["body"], served)
    np.testing.assert_array_equal(outputs["logits"], expected["logits"])
    exec(files, names)
    assert int(as_tensorflow_serving(names["body"], served)["label"][0]) == label


def test_the_card_says_how_good_the_model_is(workdir):
    text = (workdir / "export" / "README.md").read_text()
    result = json.loads((workdir / "result.json").read_text())
    assert f"{result['test']['accuracy']:.4f} on the 360 test pictures" in text
    assert "EXIF is not applied" in text and "$" not in text.replace("$PWD", "")


def test_a_file_that_differs_is_told_and_the_old_export_stays(workdir, monkeypatch, capsys):
    before = sorted(workdir.rglob("*"))

    def wrong(made, folder, images, count):
        model, _, _ = posvit_tf.load(workdir)
        return model(np.load(images)[:count]).numpy() + 2e-4

    monkeypatch.setattr(formats, "in_a_fresh_process", wrong)
    monkeypatch.setattr(write, "write_saved_model", lambda *given: given[2].mkdir() or [])
    assert cli.main(["posvit", "export", str(workdir)]) == 2
    assert "error: saved_model is not the model" in capsys.readouterr().err
    assert sorted(workdir.rglob("*")) == before


def test_what_a_killed_export_left_goes_and_a_second_one_at_once_is_refused(
    workdir, monkeypatch, capsys
):
    left = workdir / ".export-killed"
    (left / "export").mkdir(parents=True)
    with run_files.locked(workdir):
        assert cli.main(["posvit", "export", str(workdir)]) == 2
    error = capsys.readouterr().err
    assert f"error: another run or export is at work in {workdir}: wait" in error
    assert left.exists()  # it may be that of the other one

    def stop(*_):
        raise UserError("stop")

    monkeypatch.setattr(write, "fill", stop)
    assert cli.main(["posvit", "export", str(workdir)]) == 2
    assert not list(workdir.glob(".export-*"))


def test_a_run_of_half_precision_is_loaded_in_float32(workdir, tmp_path):
    (tmp_path / "checkpoints").symlink_to(workdir / "checkpoints")
    config = json.loads((workdir / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "precision": "mixed_bfloat16"}))
    assert posvit_tf.load(tmp_path).model.get_layer("block_1").compute_dtype == "bfloat16"
    loaded = trained.load(tmp_path, precision="float32")
    np.testing.assert_array_equal(loaded.model(IMAGES), posvit_tf.load(workdir).model(IMAGES))


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ({}, "holds no run"),
        ({"config.json": "{}"}, "not finished: go on with it"),
        (
            {
                "config.json": "{}",
                "result.json": '{"task": "associate", "config": "spatial", "captions": {}}',
            },
            "task associate: only a",
        ),
    ],
)
def test_a_folder_without_a_finished_classifier_is_one_line(left, message, tmp_path, capsys):
    for name, content in left.items():
        (tmp_path / name).write_text(content)
    assert cli.main(["posvit", "export", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(f"error: .*{message}.*\n", error)


def test_what_is_not_exported_of_a_classifier_is_one_line(workdir, tmp_path, capsys):
    config, result = (
        json.loads((workdir / f"{name}.json").read_text()) for name in ("config", "result")
    )
    permuted = config | {"data": config["data"] | {"cell_size": 4}}
    for changed, left, message in (
        (permuted, result, r"saw permuted images (data.cell_size=4)"),
        ({}, result, "config.json lacks task"),
        (config, {"task": "classify"}, "result.json is damaged"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(changed))
        (tmp_path / "result.json").write_text(json.dumps(left))
        assert cli.main(["posvit", "export", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error


def test_formats_that_cannot_be_written_are_told_before_any_work(monkeypatch):
    with pytest.raises(UserError, match="unknown format 'tflite': .*litert"):
        formats.choose(["tflite"])
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'needs tf2onnx, onnxruntime: pip install -e "\.\[onnx\]"'):
        formats.choose(["onnx"])
    assert formats.choose(["keras"]) == ["saved_model", "keras"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device", "images.npy"),
        tf.errors.ResourceExhaustedError(None, None, "images.npy; No space left on device"),
    ],
)
def test_a_folder_that_cannot_be_written_is_named(error, workdir, monkeypatch):
    def full(*_):
        raise error

    monkeypatch.setattr(write, "save_images", full)
    with pytest.raises(UserError, match=r"cannot write .*images.npy.*No space left on device"):
        write.export(workdir, [])


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process():
    with pytest.raises(OSError, match="No space left"):
        write.save_images(Path("/dev/full"), np.zeros((1000, 32, 32, 3), "uint8"))


@pytest.fixture(scope="module")
def every_format(workdir, tmp_path_factory):
    """The run's export in all formats."""
    for module in ("tf2onnx", "onnxruntime", "ai_edge_litert"):
        pytest.importorskip(module)
    run = shutil.copytree(workdir, tmp_path_factory.mktemp("formats") / "run")
    assert cli.main(["posvit", "export", str(run), "--formats=keras,onnx,litert"]) == 0
    return run / "export"


@pytest.mark.slow
def test_every_format_is_the_model_and_runs_as_its_card_says(every_format, served, monkeypatch):
    files = (
        "README.md classes.txt model.keras model.onnx model.tflite model_int8.tflite saved_model"
    )
    assert sorted(path.name for path in every_format.iterdir()) == files.split()
    text = (every_format / "README.md").read_text()
    assert "dynamic range" in text
    expected = served["serving_default"](images=tf.constant(IMAGES))["logits"]
    monkeypatch.chdir(every_format)
    for lines in blocks(every_format / "README.md")[6:]:
        names = {"images": IMAGES}
        exec(lines, names)
        np.testing.assert_allclose(names["logits"], expected, atol=1e-5)
    kept = keras.saving.load_model(every_format / "model.keras")
    assert any(layer.name == "positions" for layer in kept.layers)


@pytest.mark.slow
@pytest.mark.parametrize("made", [*formats.FORMATS.values(), formats.INT8], ids=lambda m: m.file)
def test_a_batch_of_any_size_gives_the_same_rows(made, every_format, monkeypatch):
    monkeypatch.chdir(every_format)
    images = np.random.default_rng(1).integers(0, 256, (8, 8, 8, 1), dtype=np.uint8)
    names = {}
    exec(made.load, names)

    def logits(images):
        exec(made.call, names | {"images": images}, found := {})
        return np.asarray(found["logits"])

    alone = np.concatenate([logits(images[i : i + 1]) for i in range(8)])
    for size in (3, 8, 1):
        np.testing.assert_allclose(logits(images[:size]), alone[:size], atol=1e-5)
    if session := names.get("session"):
        axes = {value.shape[0] for value in (*session.get_inputs(), *session.get_outputs())}
        assert axes == {"batch"}

"""The formats of an export: how each is written, how a program runs it, and that it runs so.

The lines that run a file are those of the model card, and the check in a fresh process executes them.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from posvit_tf.errors import UserError

ONNX_OPSET = 18


class Format(NamedTuple):
    """A file of an export, and the Python that runs it in the export's folder.

    Attributes:
        file: its name.
        load: lines that load it.
        call: lines from `images`, uint8 (N, H, W, C), to `logits` (N, K).
        needs: modules beside the package's own; an extra of the format's name brings them.
    """

    file: str
    load: str
    call: str
    needs: tuple[str, ...] = ()


def litert(file: str) -> Format:
    """A LiteRT file and how it is run."""
    return Format(
        file,
        "from ai_edge_litert.interpreter import Interpreter\n\n"
        f'interpreter = Interpreter("{file}")\n'
        'classify = interpreter.get_signature_runner("serving_default")',
        'outputs = classify(images=images)\nlogits = outputs["logits"]',
        ("ai_edge_litert",),
    )


FORMATS = {
    "saved_model": Format(
        "saved_model",
        "import tensorflow as tf\n\n"
        'classify = tf.saved_model.load("saved_model").signatures["serving_default"]',
        'outputs = classify(images=tf.constant(images))\nlogits = outputs["logits"]',
    ),
    "keras": Format(
        "model.keras",
        "import keras\n\n"
        "import posvit_tf.layers  # of which the file is made\n\n"
        'model = keras.saving.load_model("model.keras")',
        "logits = model(images)",
    ),
    "onnx": Format(
        "model.onnx",
        "import onnxruntime\n\n"
        'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])',
        'names = ["logits", "probabilities", "label"]\n'
        'logits, probabilities, label = session.run(names, {"images": images})',
        ("tf2onnx", "onnxruntime"),
    ),
    "litert": litert("model.tflite"),
}
INT8 = litert("model_int8.tflite")

CHECK = """\
import sys

import numpy as np

{guard}
{load}

found, everything = [], np.load(sys.argv[1], mmap_mode="r")[: int(sys.argv[2])]
for start in range(0, len(everything), 50):
    images = np.ascontiguousarray(everything[start : start + 50])
    {call}
    found.append(np.asarray(logits))
np.save(sys.argv[3], np.concatenate(found))
"""


def choose(names: list[str]) -> list[str]:
    """The formats to write, in their order, the SavedModel always.

    Raises:
        UserError: an unknown name, or an extra that is not installed.
    """
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise UserError(f"unknown format {unknown[0]!r}: choose from {', '.join(FORMATS)}")
    chosen = [name for name in FORMATS if name == "saved_model" or name in names]
    for name in chosen:
        missing = [need for need in FORMATS[name].needs if not importlib.util.find_spec(need)]
        if missing:
            raise UserError(
                f'the format {name} needs {", ".join(missing)}: pip install -e ".[{name}]"'
            )
    return chosen


def write(name: str, folder: Path, model: keras.Model) -> None:
    """Writes a format into the folder of an export: `model` as .keras, the others from saved_model/.

    Raises:
        UserError: a converter refuses the model.
    """
    path, saved_model = folder / FORMATS[name].file, folder / FORMATS["saved_model"].file
    if name == "keras":
        model.save(path)
    elif name == "onnx":
        # As a program: its function for tf.functions makes inputs of captured constants.
        command = [sys.executable, "-m", "tf2onnx.convert", f"--saved-model={saved_model}"]
        command += ["--signature_def=serving_default", f"--opset={ONNX_OPSET}", f"--output={path}"]
        run(command, "tf2onnx could not convert the model")
        name_batch(path)
    else:
        for file, optimizations in ((path, []), (folder / INT8.file, [tf.lite.Optimize.DEFAULT])):
            converter = tf.lite.TFLiteConverter.from_saved_model(
                str(saved_model), signature_keys=["serving_default"]
            )
            converter.optimizations = optimizations
            file.write_bytes(converter.convert())


def name_batch(path: Path) -> None:
    """Names the first axis of an ONNX file's inputs and outputs `batch`; tf2onnx numbers it, unk__318."""
    import onnx  # not above: tf2onnx brings it

    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)


def in_a_fresh_process(made: Format, folder: Path, images: Path, count: int) -> np.ndarray:
    """The logits (count, K) of the first `count` images of an .npy file, by the format's own lines.

    Raises:
        UserError: the file does not load or run there.
    """
    own_layers = "posvit_tf" in made.load
    code = CHECK.format(
        guard="" if own_layers else 'sys.modules["posvit_tf"] = None  # not to be had\n',
        load=made.load,
        call=made.call.replace("\n", "\n    "),
    )
    with tempfile.TemporaryDirectory() as scratch:
        logits = Path(scratch, "logits.npy")
        command = [sys.executable, "-c", code, str(images.resolve()), str(count), str(logits)]
        run(command, f"{made.file} does not run in a fresh process", cwd=folder)
        return np.load(logits)


def run(command: list[str], failure: str, cwd: Path | None = None) -> None:
    """Runs a program; what it prints is shown only where it fails.

    Raises:
        UserError: `failure`, with the program's last line.
    """
    done = subprocess.run(command, cwd=cwd, env=os.environ, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise UserError(f"{failure}: {(done.stderr.strip() or 'no message').splitlines()[-1]}")

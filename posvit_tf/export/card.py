"""The model card of an export: what the model is, what it takes, and the lines that run each file."""

from string import Template
from typing import NamedTuple

from ml_collections import ConfigDict

from posvit_tf.data.splits import Source
from posvit_tf.export.formats import FORMATS, INT8, Format

NAMED = 20  # classes that the card names at most; classes.txt has all

HEAD = Template("""\
# $name: an image classifier

**Task.** One of $classes classes for a picture: $class_names.

**Data.** $data, pictures of $height x $width pixels: trained on $trained (`$train_split`), tested on
$tested (`$test_split`). How it does on pictures of another kind is not known.

**Accuracy.** $accuracy on the $tested test pictures, one run (seed $seed), computed in $precision as in
training; $float32 on the $evaluated pictures of the $split split, computed in float32 as this export does.

**Model.** $parameters parameters, trained by posvit_tf, config `$name`.

## What it takes and gives

`images`: uint8 (N, $height, $width, $channels), $colours, 0 to 255, any N; the
normalisation is in the model. Cut a picture of another size to its largest central part of this aspect
ratio and resize it with antialiasing, or leave that to the signature `encoded`.

`logits` and `probabilities`: float32 (N, $classes). `label`: int32 (N,), counted from 0 in the order of
classes.txt.

## Files

Each was loaded in a fresh process and compared with the model on $compared pictures of the $split split.

| file | size | largest difference of a logit | same label |
| --- | --- | --- | --- |
$files
The SavedModel where it was exported, in calls of N pictures: median and quartiles of $rounds calls in ms,
beside whatever else that machine did.

| attention maps | size | N = 1 | N = 32 |
| --- | --- | --- | --- |
$costs
The lines below run in this folder, on

```python
import numpy as np

images = np.zeros((1, $height, $width, $channels), "uint8")
```
""")

SAVED_MODEL = Template("""
## Python

```python
$code
```

or, as a layer of a Keras model (`keras.saving.load_model` does not read a SavedModel):

```python
import keras

layer = keras.layers.TFSMLayer("saved_model", call_endpoint="serving_default")
outputs = layer(images)
```

Files of JPEG or PNG pictures go to the signature `encoded`, which decodes, cuts and resizes them.
Transparent parts become white, of 16 bits the upper 8 are kept, and **EXIF is not applied**: turn a photo
upright before, or use `python -m posvit_tf.predict`, which does.

```python
from pathlib import Path

import tensorflow as tf

signatures = tf.saved_model.load("saved_model").signatures
outputs = signatures["encoded"](encoded=tf.constant([Path("picture.jpg").read_bytes()]))
class_names = signatures["class_names"]()["class_names"].numpy()
print(class_names[outputs["label"][0]].decode())
```

## TensorFlow Serving

    docker run -p 8501:8501 -v "$$PWD/saved_model:/models/posvit/1" -e MODEL_NAME=posvit tensorflow/serving

Bodies to POST to `http://localhost:8501/v1/models/posvit:predict`: of pixels,

```python
import json

body = json.dumps({"signature_name": "serving_default", "instances": images.tolist()})
```

and of files:

```python
import base64
import json
from pathlib import Path

content = base64.b64encode(Path("picture.jpg").read_bytes()).decode()
body = json.dumps({"signature_name": "encoded", "instances": [{"b64": content}]})
```

The answer is `{"predictions": [{"logits": [...], "probabilities": [...], "label": ...}, ...]}`. Both bodies
are tested against the signatures; no server was tried.
""")

OTHERS = {
    "keras": "Keras, where posvit_tf is installed\n\nThis file is not frozen: it can be trained further.",
    "onnx": "ONNX Runtime\n\n`pip install onnxruntime`; the outputs have the SavedModel's names.",
    "litert": "LiteRT\n\n`pip install ai-edge-litert`; the outputs have the SavedModel's names.",
}

QUANTISED = Template("""
`$file` ($size) is run likewise. It has int8 weights, and activations quantised as they come (dynamic range):
accuracy $int8, of float32 $float32, on the $evaluated pictures of the $split split.
""")


class Cost(NamedTuple):
    """A SavedModel's maps, bytes on disk, and ms a call at batch 1 and at batch 32."""

    maps: str
    bytes: int
    one: str
    many: str


class Compared(NamedTuple):
    """A file's bytes, largest difference of a logit from the model's, and share of `count` equal labels."""

    file: str
    bytes: int
    difference: float
    agreement: float
    count: int


class Facts(NamedTuple):
    """What an export found.

    Attributes:
        split, evaluated: of how many images of which split the accuracies are.
        accuracies: of float32, and of int8 where there is LiteRT.
        rounds: calls that each time of `costs` is of.
        costs: of the SavedModel as it is, and before its maps were frozen.
        files: format -> what comparing it found.
        quantised: bytes of LiteRT's int8 file.
    """

    split: str
    evaluated: int
    accuracies: dict[str, float]
    rounds: int
    costs: list[Cost]
    files: dict[str, Compared]
    quantised: int


def megabytes(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e6:.2f} MB"


def card(config: ConfigDict, precision: str, result: dict, source: Source, facts: Facts) -> str:
    """The card as Markdown."""
    height, width, channels = source.train.images.shape[1:]
    class_names = ", ".join(source.class_names[:NAMED])
    if len(source.class_names) > NAMED:
        class_names += ", ... (classes.txt has all)"
    values = dict(
        name=config.name,
        classes=len(source.class_names),
        class_names=class_names,
        data=source.name,
        height=height,
        width=width,
        channels=channels,
        colours="red, green, blue" if channels == 3 else "grey, 0.2989 R + 0.587 G + 0.114 B",
        trained=len(source.train.labels),
        train_split=config.data.train_split,
        tested=result["test"]["examples"],
        test_split=config.data.test_split,
        accuracy=f"{result['test']['accuracy']:.4f}",
        seed=config.seed,
        precision=precision,
        parameters=f"{result['parameters']:,}",
        split=facts.split,
        evaluated=facts.evaluated,
        compared=facts.files["saved_model"].count,
        rounds=facts.rounds,
        files="".join(
            f"| {f.file} | {megabytes(f.bytes)} | {f.difference:.1e} | {f.agreement:.2%} |\n"
            for f in facts.files.values()
        ),
        costs="".join(
            f"| {c.maps} | {megabytes(c.bytes)} | {c.one} | {c.many} |\n" for c in facts.costs
        ),
        **{kind: f"{accuracy:.4f}" for kind, accuracy in facts.accuracies.items()},
    )
    text = HEAD.substitute(values) + SAVED_MODEL.substitute(code=code(FORMATS["saved_model"]))
    for name in facts.files:
        if name in OTHERS:
            text += f"\n## {OTHERS[name]}\n\n```python\n{code(FORMATS[name])}\n```\n"
    if "litert" in facts.files:
        text += QUANTISED.substitute(values, file=INT8.file, size=megabytes(facts.quantised))
    return text


def code(made: Format) -> str:
    """The lines that load and call a file."""
    return f"{made.load}\n\n{made.call}"

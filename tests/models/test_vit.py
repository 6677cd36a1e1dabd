import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from posvit_tf import config
from posvit_tf.layers import local_maps
from posvit_tf.models.vit import freeze_attention, frozen, intermediates, vit

CIFAR = (32, 32, 3)
PARAMETERS = {
    "digits": ((8, 8, 1), 10, 102_666),
    "cifar10": (CIFAR, 10, 6_268_810),
    "cifar10:attention=content": (CIFAR, 10, 6_268_810),
    "cifar10:attention=free": (CIFAR, 10, 4_553_950),
    "cifar10:size=nano": (CIFAR, 10, 311_338),
    "cifar10:patch=2": (CIFAR, 10, 6_328_714),
    "cifar100": (CIFAR, 100, 6_303_460),
    "svhn": (CIFAR, 10, 6_268_810),
}

SHAPE, MEAN, STD = (4, 6, 3), (100.0, 110.0, 120.0), (50.0, 60.0, 65.0)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)


def tiny(attention, precision="float32", **model):
    """A model of 2x3 patches, two blocks and width 8, every weight random."""
    model = {"depth": 2, "heads": 2, "width": 8, "mlp_width": 8, **model}
    fields = config.load(f"digits:attention={attention}", {f"model.{k}": model[k] for k in model})
    built = vit(SHAPE, 4, MEAN, STD, dtype=precision, **fields.model)
    rng = np.random.default_rng(1)
    for weight in built.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return built


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_count(name):
    shape, classes, count = PARAMETERS[name]
    loaded = config.load(name)
    channels = shape[-1]
    model = vit(
        shape, classes, (0.0,) * channels, (1.0,) * channels, dtype=loaded.precision, **loaded.model
    )
    assert model.count_params() == count


def test_every_image_config_has_its_count():
    loaded = {name: config.load(name) for name in config.paths()}
    # a folder's patch, and so its count, come from its pictures
    image_configs = {n for n, c in loaded.items() if c.task == "classify" and c.model.patch_size}
    assert image_configs == {name.partition(":")[0] for name in PARAMETERS}


def test_images_are_normalised_in_the_model():
    model = tiny("positional", depth=1)
    image = np.array([m + k * s for k, (m, s) in enumerate(zip(MEAN, STD, strict=True))])
    patches = intermediates(model)(np.full((1, *SHAPE), image, "uint8"))["patches"]
    kernel, bias = model.get_layer("patches").get_weights()
    expected = np.tile([0.0, 1.0, 2.0], 4) @ kernel + bias  # channel k stands k deviations off
    np.testing.assert_allclose(patches, np.tile(expected, (1, 6, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("attention", "map_shape"),
    [
        ("positional", (2, 7, 7)),
        ("free", (2, 7, 7)),
        ("uniform", (2, 7, 7)),
        ("content", (3, 2, 7, 7)),
    ],
)
def test_intermediates_and_what_the_maps_depend_on(attention, map_shape, images):
    model = intermediates(tiny(attention))
    values, others = model(images), model(255 - images)
    assert {name: tuple(value.shape) for name, value in values.items()} == {
        "patches": (3, 6, 8),
        "block_1": (3, 7, 8),
        "block_1/map": map_shape,
        "block_2": (3, 7, 8),
        "block_2/map": map_shape,
        "logits": (3, 4),
    }
    for block in ("block_1", "block_2"):
        attention_map, other = values[f"{block}/map"], others[f"{block}/map"]
        np.testing.assert_allclose(np.sum(attention_map, axis=-1), 1.0, rtol=1e-6)
        if attention == "content":
            assert np.all(np.abs(attention_map - other).max(axis=(1, 2, 3)) > 0.01)
        else:
            np.testing.assert_array_equal(attention_map, other)
    assert np.all(np.abs(values["logits"] - others["logits"]).max(axis=1) > 0.01)


@pytest.mark.parametrize(
    ("attention", "fixed"),
    [
        ("positional", {"table", "query/kernel", "query/bias", "key/kernel", "key/bias"}),
        ("free", {"off_diagonal"}),  # P is added to the tokens, and no map comes from it
    ],
)
def test_frozen_attention_fixes_what_the_maps_come_from_and_nothing_else(attention, fixed):
    model = tiny(attention)
    weights = len(model.weights)
    freeze_attention(model)
    for weight in model.weights:
        assert weight.trainable == (not weight.path.endswith(tuple(fixed))), weight.path
    assert len(model.weights) == weights


def test_mean_pool_and_content_attention_without_positions_ignore_the_order_of_patches(images):
    model = tiny("content", depth=1, pool="mean", positions="none")
    swapped = np.concatenate([images[:, 2:], images[:, :2]], axis=1)  # the two rows of patches
    np.testing.assert_allclose(model(swapped), model(images), atol=1e-5)
    assert intermediates(model)(images)["block_1"].shape == (3, 6, 8)
    placed = tiny("content", depth=1, pool="mean", positions="sincos")
    assert np.all(np.abs(placed(swapped) - placed(images)).max(axis=1) > 1e-3)


@pytest.mark.parametrize("attention", ["positional", "free", "content"])
def test_local_initial_maps(attention):
    def build(maps):
        changes = {"model.initial_maps": maps, "model.heads": 4}
        fields = config.load(f"digits:attention={attention}", changes)
        keras.utils.set_random_seed(0)
        return vit((8, 16, 3), 4, MEAN, STD, **fields.model)  # 4x8 patches of 2x2

    random, local = build("random"), build("local")
    changed = {
        ours.path
        for ours, theirs in zip(random.weights, local.weights, strict=True)
        if np.any(ours.numpy() != theirs.numpy())
    }
    blocks = [f"block_{i}" for i in (1, 2, 3)]
    parts = {
        "free": ["/attention/off_diagonal"],
        "positional": ["/attention/query/kernel", "/attention/key/kernel"],
    }
    parts["content"] = [*parts["positional"], "/attention/out/kernel", "/mlp/out/kernel"]
    expected = {block + part for block in blocks for part in parts[attention]}
    expected |= {"positions/table"} if attention != "free" else set()
    expected |= {"patches/projection/kernel"} if attention == "content" else set()
    assert changed == expected

    pixels = np.random.default_rng(0).integers(0, 256, (50, 8, 16, 3), dtype=np.uint8)
    values = intermediates(local)(pixels)
    for layer, block in enumerate(blocks):
        scores = local_maps.scores((4, 8), 16, local_maps.head_shifts(4, layer), class_token=True)
        expected = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        if attention == "content":
            mean = np.mean(values[f"{block}/map"], axis=0)
            np.testing.assert_array_equal(
                mean[:-1, 1:].argmax(axis=-1), expected[:-1, 1:].argmax(axis=-1)
            )
        else:
            np.testing.assert_allclose(values[f"{block}/map"], expected, rtol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_logits_and_maps_are_float32_in_every_precision(precision, images):
    values = intermediates(tiny("positional", precision, depth=1))(images)
    assert values["block_1"].dtype == keras.DTypePolicy(precision).compute_dtype
    assert values["logits"].dtype == values["block_1/map"].dtype == tf.float32
    assert np.all(np.isfinite(values["logits"]))


# A user's program: of this package it imports the layers and nothing else.
FRESH = """
import sys
import keras
import numpy as np
import posvit_tf.layers

data = np.load("data.npz")
for kind in sys.argv[1:]:
    model = keras.models.load_model(f"{kind}.keras")
    if keras.backend.backend() == "jax":  # there op by op is the slower way
        model.run_eagerly, model.jit_compile = False, True
    logits = model.predict_on_batch(data["images"])
    np.savez(kind, logits, *(v.numpy() for v in model.optimizer.variables))
model.train_on_batch(data["images"], data["labels"])
np.savez("trained", *model.get_weights())
"""


@pytest.mark.parametrize("kind", ["positional", "free", "content"])
def test_frozen_model_is_the_same_without_what_made_its_maps(kind, images):
    model = tiny(kind)
    constant = frozen(model)
    expected = model(images)
    np.testing.assert_array_equal(constant(images), expected)
    assert any(layer.name == "positions" for layer in constant.layers) == (kind != "positional")
    assert (constant is model) == (kind == "content")
    for weight in model.weights:
        if any(part in weight.path for part in ("query", "key", "off_diagonal")):
            weight.assign(weight + 1.0 + np.arange(weight.shape[-1]))  # what only a map sees
    assert not np.allclose(model(images), expected)
    assert np.array_equal(constant(images), expected) == (kind != "content")


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("kind", ["positional", "free", "uniform", "content"])
def test_last_block_goes_through_the_class_token_alone_and_nothing_changes(kind, depth, images):
    model = tiny(kind, depth=depth)
    whole = intermediates(model)

    def run(logits):
        with tf.GradientTape() as tape:
            values = logits()
            loss = tf.reduce_sum(tf.nn.log_softmax(values)[:, 1])
        return values, *tape.gradient(loss, [w.value for w in model.trainable_weights])

    assert model.get_layer(f"block_{depth}").output.shape == (None, 1, 8)
    for few, all_tokens in zip(
        run(lambda: model(images)), run(lambda: whole(images)["logits"]), strict=True
    ):
        np.testing.assert_allclose(few, all_tokens, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of compiled models, and by file what a process that loads them must write into it."""
    folder = tmp_path_factory.mktemp("saved")
    images = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)
    labels = np.array([0, 3, 1])
    np.savez(folder / "data", images=images, labels=labels)
    expected = {}
    for kind in ("content", "free", "positional"):
        model = tiny(kind, depth=1)
        # A larger epsilon than Adam's own, which turns rounding into a step where the gradient is 0.
        optimizer = keras.optimizers.AdamW(1e-2, epsilon=1e-2)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, run_eagerly=True)
        model.train_on_batch(images, labels)
        model.save(folder / f"{kind}.keras")
        expected[kind] = [model.predict_on_batch(images), *(v.numpy() for v in optimizer.variables)]
    # One more step of the last: the loaded optimizer goes on, with the layers' own gradients.
    model.train_on_batch(images, labels)
    return folder, expected | {"trained": model.get_weights()}


@pytest.mark.parametrize(("backend", "tolerance"), [("tensorflow", 1e-6), ("jax", 1e-5)])
def test_saved_model_is_the_same_in_a_fresh_process(backend, tolerance, saved):
    folder, expected = saved
    # The flag halves what JAX spends on compiling; the numbers stay.
    environment = {"KERAS_BACKEND": backend, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    subprocess.run(
        [sys.executable, "-c", FRESH, "content", "free", "positional"],
        cwd=folder,
        env=os.environ | environment,
        check=True,
    )
    for file, values in expected.items():
        with np.load(folder / f"{file}.npz") as found:
            assert len(found.files) == len(values)
            for name, value in zip(found.files, values, strict=True):
                np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from posvit_tf.data.splits import Source, Split
from posvit_tf.errors import UserError
from posvit_tf.training import checkpoint, classification, optim, step
from posvit_tf.training.classification import Classification
from posvit_tf.training.objective import seed_states
from posvit_tf.training.replicas import Replicas
from posvit_tf.training.strategy import mirrored

FACTS = {"image_shape": (8, 8, 1), "class_names": "abc", "mean": (90.0,), "std": (60.0,)}


def on(replicas):
    """The strategy of one or of both logical CPUs."""
    devices = tuple(device.name for device in tf.config.list_logical_devices("CPU"))
    return mirrored(devices) if replicas == 2 else tf.distribute.get_strategy()


def updated(config, replicas=1, updates=3):
    """After some updates on fixed images: weights, optimizer variables, figures and dropout's seeds."""
    from posvit_tf.models.build import build

    keras.utils.set_random_seed(1)
    strategy = on(replicas)
    with strategy.scope():
        model = build(config, FACTS)
        objective = Classification(model, config.train.label_smoothing)
        rate = optim.schedule(config.optimizer, 4, 1)
        optimizer = optim.make(config.optimizer, config.precision, model, rate)
    update = step.make_update(config, strategy, objective, optimizer)
    rng = np.random.default_rng(0)
    k, share = config.train.accumulate, config.data.batch_size // replicas
    figures = []
    for number in range(updates):
        # (R*k*b,...): the same 16 images an update however they are shared out
        images = rng.integers(0, 256, (16, 8, 8, 1), dtype=np.uint8)
        labels = rng.integers(0, 3, 16).astype("int32")

        def own(values, context):
            r = context.replica_id_in_sync_group
            return tf.constant(
                values.reshape(k, replicas, share, *values.shape[1:])[:, r]  # (k,b,...)
            )

        batch = [
            strategy.experimental_distribute_values_from_function(lambda c, v=v: own(v, c))
            if replicas > 1
            else tf.constant(v.reshape(k, share, *v.shape[1:]))
            for v in (images, labels, np.zeros((16, 0), "float32"))
        ]
        figures.append(update(*batch, tf.constant(number, tf.int64)).numpy())
    values = checkpoint.values(checkpoint.named(model.weights, "w"))
    averages = checkpoint.values(checkpoint.named(optimizer.variables, "o"))
    draws = {
        tuple(local.numpy())
        for state in seed_states(model)
        for local in strategy.experimental_local_results(state.value)
    }
    return values, averages, np.array(figures), draws


def assert_close(a, b, tolerance):
    for left, right in zip(a[:2], b[:2], strict=True):
        for name, value in left.items():
            np.testing.assert_allclose(value, right[name], atol=tolerance, err_msg=name)
    np.testing.assert_allclose(a[2], b[2], rtol=tolerance)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_two_replicas_and_two_micro_batches_equal_one(tiny, name):
    # A gradient summed twice, clipped before the sum, or decayed twice would show: clipping acts here.
    options = {
        "optimizer.name": name,
        "optimizer.clip_norm": 0.1,
        "optimizer.ema_decay": 0.9,
        "optimizer.weight_decay": 0.1,
        "train.label_smoothing": 0.1,
    }
    one = updated(tiny({**options, "data.batch_size": 16}))
    two = updated(tiny({**options, "data.batch_size": 8, "train.accumulate": 2}), replicas=2)
    assert_close(one, two, 2e-6)


@pytest.mark.parametrize(
    ("kind", "of_maps", "name", "replicas"),
    [
        ("positional", ("query/", "key/", "positions/"), "adamw", 1),
        ("positional", ("query/", "key/", "positions/"), "adamw", 2),
        ("free", ("off_diagonal",), "sgd", 1),
    ],
)
def test_the_maps_move_at_a_rate_of_their_own(tiny, kind, of_maps, name, replicas):
    changes = {"optimizer.name": name, "model.attention": kind, "optimizer.weight_decay": 0.0}

    def weights(updates, **more):  # the first update warms up at a rate of 0
        return updated(tiny({**changes, **more}), replicas, updates)[0]

    start, plain, scaled = weights(1), weights(2), weights(2, **{"optimizer.map_rate": 5.0})
    moved = 0
    for path, value in plain.items():
        of_map = any(part in path for part in of_maps)
        moved += of_map and bool(np.any(value != start[path]))
        step = (5 if of_map else 1) * (value - start[path])
        np.testing.assert_allclose(scaled[path] - start[path], step, rtol=1e-3, atol=1e-6)
    assert moved


@pytest.fixture
def convolutions(tiny):
    """convolutions(changes) -> the config of a small ResNet-18 on two micro-batches of 8."""

    def load(changes=()):
        config = tiny({"optimizer.name": "sgd", "data.batch_size": 8, "train.accumulate": 2})
        with config.unlocked():
            config.model = ConfigDict({"name": "resnet18", "width": 2})
            config.update_from_flattened_dict(dict(changes))
        return config

    return load


@pytest.mark.slow
def test_batch_norm_spans_the_replicas(convolutions):
    config = convolutions({"optimizer.weight_decay": 0.1})
    one, two = updated(config), updated(config, replicas=2)
    assert_close(one, two, 1e-5)
    assert any("moving_variance" in name for name in one[0])


def test_moving_statistics_move_once_an_update(convolutions):
    config = convolutions()
    values = updated(config, updates=1)[0]
    from posvit_tf.models.build import build

    keras.utils.set_random_seed(1)
    model = build(config, FACTS)
    layer = next(x for x in model.layers if isinstance(x, keras.layers.BatchNormalization))
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 1), dtype=np.uint8)
    x = keras.Model(model.input, layer.input)(images).numpy().reshape(2, -1, 2)  # (k,b*H*W,C)
    mean, variance = (
        next(v for name, v in values.items() if name.endswith(f"moving_{what}"))
        for what in ("mean", "variance")
    )
    np.testing.assert_allclose(mean, 0.1 * x.mean(axis=1).mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * x.var(axis=1).mean(axis=0), rtol=1e-4)


def test_xla_over_several_devices_is_refused_with_batch_norm(convolutions):
    with pytest.raises(UserError, match="jit_compile.*batch norm"):
        updated(convolutions({"train.jit_compile": True}), replicas=2)


def test_dropout_differs_by_replica_layer_and_update_and_repeats(tiny):
    config = tiny({"model.dropout": 0.5, "data.batch_size": 16})
    first, again = updated(config, replicas=2), updated(config, replicas=2)
    for name, value in first[0].items():
        np.testing.assert_array_equal(value, again[0][name])
    # 2 replicas x the embedding's dropout, the attention's and the MLP's two
    assert len(first[3]) == 8
    assert not first[3] & updated(config, replicas=2, updates=2)[3]


def test_compiled_equals_uncompiled(tiny):
    plain = updated(tiny({"optimizer.name": "sgd"}))
    compiled = tiny({"optimizer.name": "sgd", "train.jit_compile": True})
    for replicas in (1, 2):
        assert_close(plain, updated(compiled, replicas), 1e-5)

    from posvit_tf.models.build import build

    model = build(tiny(), FACTS)
    images = np.random.default_rng(0).integers(0, 256, (21, 8, 8, 1), dtype=np.uint8)
    split = Split(images, np.zeros(21, "int32"))
    logits = [
        Replicas(config, on(1), Classification(model)).outputs(split)
        for config in (tiny(), compiled)
    ]
    np.testing.assert_allclose(*logits, atol=1e-5)


def test_float16_skips_an_overflowing_update_and_goes_on(tiny):
    config = tiny({"precision": "mixed_float16", "optimizer.clip_norm": 1.0})
    keras.utils.set_random_seed(1)
    from posvit_tf.models.build import build

    model = build(config, FACTS)
    optimizer = optim.make(
        config.optimizer, config.precision, model, optim.schedule(config.optimizer, 4, 0)
    )
    optimizer.dynamic_scale.assign(2.0**120)
    update = step.make_update(
        config, tf.distribute.get_strategy(), Classification(model), optimizer
    )
    images = tf.constant(
        np.random.default_rng(0).integers(0, 256, (1, 16, 8, 8, 1), dtype=np.uint8)
    )
    labels, draws = tf.zeros((1, 16), tf.int32), tf.zeros((1, 16, 0))
    before = model.get_weights()
    figures = update(images, labels, draws, tf.constant(0, tf.int64)).numpy()
    assert np.isfinite(figures).all()
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(optimizer.dynamic_scale.value) == 2.0**119
    assert "loss_scale/dynamic_scale" in {v.path for v in optimizer.variables}

    optimizer.dynamic_scale.assign(2.0**8)
    update(images, labels, draws, tf.constant(1, tf.int64))
    assert all(np.isfinite(w).all() for w in model.get_weights())
    assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))


def test_class_weights_mix_as_soft_labels_do():
    targets, weights = tf.constant([[1.0, 0.0], [0.4, 0.6]]), np.float32([1, 3])
    losses = classification.cross_entropy(targets, tf.zeros((2, 2)), 0.0, weights)
    # (1 + .4 * 1 + .6 * 3) / 2 * ln 2; by argmax it would be 1.386
    np.testing.assert_allclose(losses.numpy().mean(), 1.109, atol=5e-4)

    # value and gradient, smoothed: sum_c t_c w_c l_c as it is written
    logits = tf.Variable([[0.3, -1.2], [2.0, 0.1]])
    with tf.GradientTape(persistent=True) as tape:
        fast = tf.reduce_sum(classification.cross_entropy(targets, logits, 0.1, weights))
        minus_log = -tf.nn.log_softmax(logits)  # (2,2)
        of_class = 0.9 * minus_log + 0.1 * tf.reduce_mean(minus_log, axis=-1, keepdims=True)
        plain = tf.reduce_sum(targets * weights * of_class)
    np.testing.assert_allclose(fast, plain, rtol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(fast, logits), tape.gradient(plain, logits), rtol=1e-5, atol=1e-7
    )


def test_balanced_weights_are_those_of_the_training_labels(tiny):
    config = tiny({"data.class_weights": "balanced"})
    split = Split(None, np.int32([0, 0, 0, 1]))
    source = Source("toy", split, None, split, ("a", "b"), (0.0,), (1.0,))
    np.testing.assert_allclose(classification.class_weights(config, source), [4 / 6, 4 / 2])
    assert classification.class_weights(tiny(), source) is None
    three = dataclasses.replace(source, class_names=("a", "b", "c"))
    with pytest.raises(UserError, match="class 'c' has no training image"):
        classification.class_weights(config, three)


@pytest.mark.parametrize("classes", [3, 20])
def test_balanced_and_top5_accuracy(classes):
    # class 0: 3 of 4 recognised, class 2: 0 of 1, class 1 does not occur
    labels, found = np.int32([0, 0, 0, 0, 2]), [0, 0, 0, 1, 0]
    logits = np.eye(classes, dtype="float32")[found]
    logits[3, 0] = 0.5  # class 0 among the first five
    logits[4, 3:8] = 0.5  # class 2 not among them
    figures = Classification(None).measure(labels, logits)
    assert (figures["accuracy"], figures["balanced_accuracy"]) == (0.6, 0.375)
    assert figures.get("top5_accuracy") == (None if classes < 20 else 0.8)


def test_evaluation_counts_every_image_once(tiny):
    from posvit_tf.models.build import build

    rng = np.random.default_rng(0)
    split = Split(
        rng.integers(0, 256, (21, 8, 8, 1), dtype=np.uint8), rng.integers(0, 3, 21).astype("int32")
    )
    results = []
    for replicas in (1, 2):
        strategy = on(replicas)
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = build(tiny(), FACTS)
            objective = Classification(model)
        logits = Replicas(tiny({"data.eval_batch_size": 8}), strategy, objective).outputs(split)
        results.append(objective.measure(split.labels, logits))
        np.testing.assert_allclose(logits, model.predict(split.images, verbose=0), atol=1e-5)
    assert results[0]["examples"] == results[1]["examples"] == 21
    assert results[0]["accuracy"] == results[1]["accuracy"]

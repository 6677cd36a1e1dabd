"""The simplified ViT as a Keras model."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from posvit_tf.data.spatial import Spatial, contiguous_partition, unit_vector
from posvit_tf.errors import UserError
from posvit_tf.models.simplified import SimplifiedViT, logistic_loss
from posvit_tf.theory import association


def patches(n=6, D=8, d=5):
    return np.random.default_rng(0).standard_normal((n, D, d)).astype(np.float32)


def test_formula():
    X = patches()
    model = SimplifiedViT(
        power=5,
        nu=0.3,
        diagonal=1.5,
        scale=3.0,
        output_scale=0.5,
        score_scale=0.7,
        value_std=1.0,
        score_std=1.0,
    )
    F = keras.ops.convert_to_numpy(model(X))
    v, A = (1 * keras.ops.convert_to_numpy(weight) for weight in model.weights)
    np.fill_diagonal(A, 1.5)
    S = np.exp(0.7 * A) / np.exp(0.7 * A).sum(axis=1, keepdims=True)
    o = 3 * (X @ v) @ S.T
    np.testing.assert_allclose(F[:, 0], 0.5 * (o**5 + 0.3 * o).sum(axis=1), rtol=1e-4)
    assert F.shape == (6, 1)


def test_loss_is_stable_and_signed():
    loss = logistic_loss(np.array([1.0, -1.0]), keras.ops.array([[1e4], [1e4]]))
    assert keras.ops.convert_to_numpy(loss).tolist() == [0, 1e4]


@pytest.mark.parametrize("power", [1, 4])
def test_a_power_that_is_not_odd_is_refused(power):
    with pytest.raises(UserError, match=f"power={power}"):
        SimplifiedViT(power=power)


def test_fit_never_moves_the_diagonal_and_reaches_every_weight():
    model = SimplifiedViT(score_std=0.1, value_std=0.1)
    model(patches())
    before = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
    model.compile("sgd", logistic_loss)
    model.fit(patches(), np.array([1, -1] * 3), verbose=0)
    (dv, dA) = (
        keras.ops.convert_to_numpy(w) - b for w, b in zip(model.weights, before, strict=True)
    )
    assert (np.diag(dA) == 0).all()
    assert np.count_nonzero(dA) == 8 * 7 and (dv != 0).all()


def test_loads_in_a_fresh_process_without_custom_objects(tmp_path):
    X = patches()
    np.save(tmp_path / "X.npy", X)
    wanted = []
    for encoding_size in (None, 3):
        model = SimplifiedViT(
            power=5, output_scale=0.5, encoding_size=encoding_size, value_std=0.5, score_std=1.0
        )
        model.compile(keras.optimizers.Adam(0.01), logistic_loss)
        model.fit(X, np.array([1, -1] * 3), verbose=0)
        model.save(tmp_path / f"{encoding_size}.keras")
        wanted.append(model.predict(X, verbose=0))
    code = """
import keras, numpy as np, posvit_tf.models.simplified
for name in ("None", "3"):
    model = keras.models.load_model(f"{name}.keras")
    assert model.optimizer.iterations == 1
    np.save(f"{name}.npy", model.predict(np.load("X.npy"), verbose=0))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    for name, F in zip(("None", "3"), wanted, strict=True):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), F, rtol=1e-5)


def test_encodings_associate():
    rng = np.random.default_rng(0)
    data = Spatial(contiguous_partition(16, 4), unit_vector(8, rng), 0.125, 0.3)
    X, y = data.sample(1000, rng)
    keras.utils.set_random_seed(0)
    model = SimplifiedViT(encoding_size=8, score_std=0.1)
    model.compile(keras.optimizers.Adam(0.02), logistic_loss)
    for _ in range(150):
        model.train_on_batch(X, y)
    assert np.mean(np.sign(model.predict(X, verbose=0)[:, 0]) == y) > 0.98
    scores = association.gram(keras.ops.convert_to_numpy(model.encodings))
    assert association.overlap(scores, data.partition, rng) > 0.9

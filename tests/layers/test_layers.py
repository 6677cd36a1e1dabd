import keras
import numpy as np
import pytest
import tensorflow as tf

from posvit_tf import layers

TOKENS, POSITIONS, IMAGES = (3, 6, 8), (6, 8), (3, 4, 6, 2)


def encoder_block(dtype):
    attention = layers.PositionalAttention(2, dtype=dtype, name="attention")
    return {"attention": attention, "mlp_width": 5, "dropout": 0.1, "drop_path": 0.2}


def check_layer(cls, arguments, inputs, output_shape, trainable, frozen, dtype, rng, randomise):
    """Shape, weights, gradients, precision, and the way through the config with every argument."""
    layer = cls(**arguments, dtype=dtype)
    inputs = [rng.normal(size=shape).astype("float32") for shape in inputs]
    symbolic = layer(
        *(
            keras.KerasTensor((None, *x.shape[1:]) if i == 0 else x.shape)
            for i, x in enumerate(inputs)
        )
    )
    randomise(layer)
    with tf.GradientTape() as tape:
        output = layer(*inputs)
        total = tf.reduce_sum(output)

    assert output.shape == output_shape
    assert symbolic.shape[1:] == output_shape[1:]
    assert keras.backend.standardize_dtype(output.dtype) == symbolic.dtype == layer.compute_dtype
    assert np.all(np.isfinite(tf.cast(output, "float32")))

    assert (len(layer.trainable_weights), len(layer.non_trainable_weights)) == (trainable, frozen)
    assert {w.dtype for w in layer.weights} <= {"float32"}
    for gradient in tape.gradient(total, [w.value for w in layer.trainable_weights]):
        assert gradient.dtype == tf.float32 and np.all(np.isfinite(gradient))

    again = cls.from_config(layer.get_config())
    again(*inputs)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(*inputs), output)
    for name in arguments:
        kept, given = (
            keras.saving.serialize_keras_object(getattr(x, name)) for x in (again, layer)
        )
        assert kept == given, name


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize(
    ("cls", "arguments", "inputs", "output_shape", "trainable", "frozen"),
    [
        (layers.SelfAttention, {"num_heads": 2}, [TOKENS], TOKENS, 8, 0),
        (layers.PositionalAttention, {"num_heads": 2}, [TOKENS, POSITIONS], TOKENS, 8, 0),
        (
            layers.OffDiagonalAttention,
            {"num_heads": 2, "diagonal": 0.3, "std": 0.1},
            [TOKENS],
            TOKENS,
            5,
            0,
        ),
        (
            layers.OffDiagonalAttention,
            {"num_heads": 2, "train_map": False},
            [TOKENS],
            TOKENS,
            4,
            1,
        ),
        (layers.Mlp, {"hidden_width": 5, "dropout": 0.1}, [TOKENS], TOKENS, 4, 0),
        (layers.DropPath, {"rate": 0.3}, [TOKENS], TOKENS, 0, 0),
        (layers.EncoderBlock, encoder_block, [TOKENS, POSITIONS], TOKENS, 16, 0),
        (layers.LayerNorm, {"epsilon": 1e-3}, [TOKENS], TOKENS, 2, 0),
        (layers.PatchEmbedding, {"width": 8, "patch_size": 2}, [IMAGES], (3, 6, 8), 2, 0),
        (
            layers.PositionTable,
            {"grid": (2, 3), "class_token": True, "std": 0.1},
            [(3, 7, 8)],
            (7, 8),
            1,
            0,
        ),
        (layers.PositionTable, {"grid": (2, 3), "kind": "sincos"}, [TOKENS], (6, 8), 0, 1),
        (layers.ClassToken, {}, [TOKENS], (3, 7, 8), 1, 0),
    ],
)
def test_layer(cls, arguments, inputs, output_shape, trainable, frozen, dtype, rng, randomise):
    if callable(arguments):
        arguments = arguments(dtype)
    check_layer(cls, arguments, inputs, output_shape, trainable, frozen, dtype, rng, randomise)

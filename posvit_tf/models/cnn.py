"""ResNet-18 and VGG-19 for small images: the baselines that rely on what is near.

Both in their usual form for 32x32 pixels: 3x3 convolutions from the first on, no pooling before the
first stage, one linear layer at the end. Batch norm as in the usual recipe: momentum 0.9, epsilon 1e-5.
"""

from collections.abc import Callable

import keras
from keras import layers

from posvit_tf.errors import UserError
from posvit_tf.models.pixels import normalised

VGG19 = (2, 2, 4, 4, 4)  # convolutions a stage; each stage ends with a pooling by 2


def cnn(
    features: Callable,
    image_shape: tuple[int, int, int],
    num_classes: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    width: int,
    dtype: str = "float32",
    name: str = "cnn",
) -> keras.Model:
    """logits = W mean(features(x)) + b.

    Args:
        features: `resnet18` or `vgg19`.
        image_shape: (H, W, C) in pixels.
        num_classes: K.
        mean, std: a number a channel, in units of 0..255.
        width: channels of the first stage; the usual one is 64.
        dtype: a Keras precision; logits are float32 always.
        name: of the model.

    Returns:
        A functional keras.Model: images uint8 (B, H, W, C) -> logits float32 (B, K).
    """
    images, x = normalised(image_shape, mean, std)
    x = features(x, width, dtype)  # (B,h,w,C')
    pooled = layers.GlobalAveragePooling2D(dtype=dtype, name="mean")(x)  # (B,C')
    logits = layers.Dense(num_classes, dtype="float32", name="logits")(pooled)  # (B,K)
    return keras.Model(images, logits, name=name)


def resnet18(x, width: int, dtype: str):
    """b_8(... b_1(relu(n(K x)))), b(x) = relu(n(K' relu(n(K x))) + s(x)): the features of ResNet-18.

    K are 3x3 convolutions without bias, n batch norms, s the identity, or n of a 1x1 convolution of every
    second pixel each way where the block changes the shape. Four stages of two blocks; each but the first
    halves the image and doubles the channels. He et al. 2016 (arXiv 1512.03385); 11,173,962 trained
    parameters at width 64, 3 channels, 10 classes.

    Args:
        x: (B, H, W, C). width: channels of the first stage. dtype: a Keras precision.

    Returns:
        (B, H/8, W/8, 8*width).
    """
    x = _relu(_conv(x, width, dtype, "stem"))  # (B,H,W,width)
    for i in range(8):
        stage, first = i // 2, i % 2 == 0
        channels, stride = width * 2**stage, 2 if stage and first else 1
        branch = _relu(_conv(x, channels, dtype, f"block_{i + 1}_conv_1", stride=stride))
        branch = _conv(branch, channels, dtype, f"block_{i + 1}_conv_2")
        if x.shape != branch.shape:
            # Picked before the 1x1 convolution, not by its stride: the same numbers, and oneDNN's gradient of
            # a strided one is wrong below 8 (AVX2) or 16 (AVX-512) channels: oneDNN issue 6035.
            x = x[:, ::stride, ::stride]  # (B,H/2^stage,W/2^stage,channels/2)
            x = _conv(x, channels, dtype, f"block_{i + 1}_shortcut", size=1)
        # (B,H/2^stage,W/2^stage,width*2^stage)
        x = _relu(layers.Add(dtype=dtype, name=f"block_{i + 1}")([x, branch]))
    return x


def vgg19(x, width: int, dtype: str):
    """s_5(... s_1(x)), s(x) = maxpool(c(... c(x))), c(x) = relu(n(K x + k)): the features of VGG-19.

    16 3x3 convolutions with bias and batch norm in five stages, of 1, 2, 4, 8 and 8 times the width; one
    linear layer takes the place of the three of Simonyan and Zisserman 2015 (arXiv 1409.1556) on images
    this small; 20,040,522 trained parameters at width 64, 3 channels, 10 classes.

    Args:
        x: (B, H, W, C). width: channels of the first stage. dtype: a Keras precision.

    Returns:
        (B, H/32, W/32, 8*width).

    Raises:
        UserError: five poolings leave nothing of the image.
    """
    height, image_width = x.shape[1:3]
    least = 2 ** len(VGG19)
    if min(height, image_width) < least:
        raise UserError(
            f"model.name=vgg19 halves the image {len(VGG19)} times, and {height}x{image_width} is too "
            f"small for it: use images of {least}x{least} pixels or more, or model.name=resnet18"
        )
    for stage, convolutions in enumerate(VGG19):
        for i in range(convolutions):
            conv_name = f"stage_{stage + 1}_conv_{i + 1}"
            x = _relu(_conv(x, width * 2 ** min(stage, 3), dtype, conv_name, bias=True))
        x = layers.MaxPooling2D(dtype=dtype)(x)  # (B,H/2^(stage+1),W/2^(stage+1),channels)
    return x


def _conv(
    x, channels: int, dtype: str, name: str, size: int = 3, stride: int = 1, bias: bool = False
):
    """Batch norm of a convolution: (B, H, W, C) -> (B, H/stride, W/stride, channels)."""
    x = layers.Conv2D(
        channels,
        size,
        stride,
        padding="same",
        use_bias=bias,
        kernel_initializer="he_normal",
        dtype=dtype,
        name=name,
    )(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, dtype=dtype, name=f"{name}_norm")(
        x
    )


def _relu(x):
    return layers.ReLU(dtype=x.dtype)(x)

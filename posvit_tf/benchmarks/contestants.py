"""The same ViT by this package, by plain Keras and by PyTorch: train steps and forward passes.

All take uint8 images (B, H, W, C), normalise, embed square patches by one matrix, put a class token
first and have `depth` pre-norm blocks of one width; all train by cross-entropy and AdamW.
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from posvit_tf import config
from posvit_tf.models.build import build
from posvit_tf.models.vit import frozen
from posvit_tf.training import optim, step
from posvit_tf.training.classification import Classification

CLASSES = 10
RATE, DECAY = 1e-3, 0.05
MEAN, STD = 127.5, 64.0


class Shape(NamedTuple):
    """Of a ViT and its batch."""

    image: int  # pixels a side
    patch: int
    batch: int
    depth: int
    width: int
    heads: int
    mlp_width: int

    @property
    def tokens(self) -> int:
        """Patches and the class token."""
        return (self.image // self.patch) ** 2 + 1

    def images(self, batch: int) -> np.ndarray:
        """uint8 (batch, H, W, 3)."""
        rng = np.random.default_rng(0)
        return rng.integers(0, 256, (batch, self.image, self.image, 3), dtype=np.uint8)

    def labels(self) -> np.ndarray:
        """int32 (batch,)."""
        return np.random.default_rng(1).integers(0, CLASSES, self.batch).astype("int32")

    def forward_flops(self, attention: str, whole: bool) -> float:
        """Multiplications and additions of the matrix products of one forward pass of a batch.

        Args:
            attention: positional, free or content.
            whole: whether the last block goes through all tokens, not the class token alone.
        """
        B, N, E, M = self.batch, self.tokens, self.width, self.mlp_width
        maps = {"free": 0, "positional": 1}.get(attention, B)
        block = B * (4 * N * E * E + 2 * N * N * E + 4 * N * E * M)
        block += maps * (4 * N * E * E + 2 * N * N * E)
        last = B * (2 * self.heads * N * E + 4 * E * E + 4 * E * M)
        last += maps * (2 * (N + 1) * E * E + 2 * N * E)
        blocks = self.depth * block if whole else (self.depth - 1) * block + last
        return blocks + B * (2 * (N - 1) * 3 * self.patch**2 * E + 2 * E * CLASSES)


def ours(shape: Shape, attention: str, xla: bool) -> tuple[keras.Model, Callable, Callable]:
    """This package as its users run it: (model, train step, batch -> forward pass as exported)."""
    settings = config.load(
        f"cifar10:attention={attention}",
        {
            "data.batch_size": shape.batch,
            "model.patch_size": shape.patch,
            "model.depth": shape.depth,
            "model.width": shape.width,
            "model.heads": shape.heads,
            "model.mlp_width": shape.mlp_width,
            "optimizer.name": "adamw",
            "optimizer.weight_decay": DECAY,
            "train.jit_compile": xla,
            "train.label_smoothing": 0.0,
        },
    )
    facts = {
        "image_shape": (shape.image, shape.image, 3),
        "class_names": list(map(str, range(CLASSES))),
        "mean": (MEAN,) * 3,
        "std": (STD,) * 3,
    }
    strategy = tf.distribute.get_strategy()
    model = build(settings, facts)
    optimizer = optim.make(
        settings.optimizer, "float32", model, optim.schedule(settings.optimizer, 10**6, 0)
    )
    update = step.make_update(settings, strategy, Classification(model), optimizer)
    images, labels = tf.constant(shape.images(shape.batch)[None]), tf.constant(shape.labels()[None])
    draws, number = tf.zeros((1, shape.batch, 0)), tf.constant(0, tf.int64)
    forward = step.make_forward(settings, strategy, Classification(frozen(model)))
    return (
        model,
        lambda: update(images, labels, draws, number).numpy(),
        lambda batch: bind(forward, tf.constant(shape.images(batch)), tf.zeros((batch, 0))),
    )


def bind(forward: Callable, *inputs: tf.Tensor) -> Callable:
    """A call of `forward` on the inputs that waits for its end."""
    return lambda: forward(*inputs).numpy()


def plain_keras(shape: Shape, xla: bool) -> tuple[keras.Model, Callable, Callable]:
    """A ViT of Keras's own layers: MultiHeadAttention, LayerNormalization, Dense, exact GELU, AdamW."""
    grid = shape.image // shape.patch
    inputs = keras.Input((shape.image, shape.image, 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / STD, -MEAN / STD)(inputs)
    x = keras.layers.Reshape((grid, shape.patch, grid, shape.patch * 3))(x)
    x = keras.layers.Permute((1, 3, 2, 4))(x)
    x = keras.layers.Dense(shape.width)(keras.layers.Reshape((grid * grid, 3 * shape.patch**2))(x))
    x = TokenAndPositions()(x)
    for _ in range(shape.depth):
        y = keras.layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + keras.layers.MultiHeadAttention(shape.heads, shape.width // shape.heads)(y, y)
        y = keras.layers.LayerNormalization(epsilon=1e-6)(x)
        y = keras.layers.Dense(shape.mlp_width)(y)
        y = keras.layers.Activation(lambda t: keras.activations.gelu(t, approximate=False))(y)
        x = x + keras.layers.Dense(shape.width)(y)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(x[:, 0]))
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(autograph=False, jit_compile=xla)
    def update(images, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(images, training=True))
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(value, [w.value for w in weights]), weights)
        return value

    forward = tf.function(lambda images: model(images), autograph=False, jit_compile=xla)
    images, labels = tf.constant(shape.images(shape.batch)), tf.constant(shape.labels())
    return (
        model,
        lambda: update(images, labels).numpy(),
        lambda batch: bind(forward, tf.constant(shape.images(batch))),
    )


class TokenAndPositions(keras.layers.Layer):
    """[t, x] + P: a class token put first and a position table added."""

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[-1]), name="token")
        self.table = self.add_weight(shape=(shape[1] + 1, shape[-1]), name="table")

    def call(self, x):
        token = keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[-1]))
        return keras.ops.concatenate([token, x], axis=1) + self.table


def pytorch(shape: Shape, attention: str) -> tuple[object, Callable, Callable]:
    """The same in PyTorch: `content` by scaled_dot_product_attention, `positional` by one bmm a head."""
    import torch
    from torch import nn
    from torch.nn import functional

    E, H = shape.width, shape.heads
    head = E // H

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.ModuleList(nn.Linear(E, E) for _ in range(3))
            self.out = nn.Linear(E, E)

        def forward(self, x, positions):
            B, N, _ = x.shape
            if attention == "content":
                q, k, v = (w(x).view(B, N, H, head).transpose(1, 2) for w in self.qkv)  # (B,H,N,dh)
                mixed = functional.scaled_dot_product_attention(q, k, v)
                return self.out(mixed.transpose(1, 2).reshape(B, N, E))
            q, k = (w(positions).view(N, H, head).transpose(0, 1) for w in self.qkv[:2])  # (H,N,dh)
            maps = torch.softmax(torch.bmm(q * head**-0.5, k.transpose(1, 2)), -1)  # (H,N,N)
            v = self.qkv[2](x).view(B, N, H, head).permute(2, 1, 0, 3)  # (H,N,B,dh)
            mixed = torch.bmm(maps, v.reshape(H, N, B * head)).view(H, N, B, head)
            return self.out(mixed.permute(2, 1, 0, 3).reshape(B, N, E))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(E, eps=1e-6) for _ in range(2))
            self.attention = Attention()
            self.hidden, self.out = nn.Linear(E, shape.mlp_width), nn.Linear(shape.mlp_width, E)

        def forward(self, x, positions):
            x = x + self.attention(self.norms[0](x), positions)
            return x + self.out(functional.gelu(self.hidden(self.norms[1](x))))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(3 * shape.patch**2, E)
            self.token = nn.Parameter(torch.zeros(1, 1, E))
            self.positions = nn.Parameter(torch.randn(shape.tokens, E))
            self.blocks = nn.ModuleList(Block() for _ in range(shape.depth))
            self.norm, self.logits = nn.LayerNorm(E, eps=1e-6), nn.Linear(E, CLASSES)

        def forward(self, images):
            B, grid = len(images), shape.image // shape.patch
            x = (images.float() - MEAN) / STD
            x = x.view(B, grid, shape.patch, grid, shape.patch, 3).transpose(2, 3)
            x = self.embed(x.reshape(B, grid * grid, -1))  # (B,N,E)
            x = torch.cat([self.token.expand(B, -1, -1), x], 1)
            if attention == "content":
                x = x + self.positions
            for block in self.blocks:
                x = block(x, self.positions)
            return self.logits(self.norm(x)[:, 0])

    model = ViT()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    images = torch.from_numpy(shape.images(shape.batch))
    labels = torch.from_numpy(shape.labels()).long()

    def update():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def forward(batch):
        inputs = torch.from_numpy(shape.images(batch))

        def call():
            with torch.inference_mode():
                return model(inputs).numpy()

        return call

    return model, update, forward


def parameters(model) -> int:
    """Trained numbers of a model of Keras or PyTorch."""
    if isinstance(model, keras.Model):
        return sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    return sum(w.numel() for w in model.parameters())

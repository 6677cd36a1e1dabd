"""The Vision Transformer, one functional builder for all kinds of attention."""

import keras

from posvit_tf.layers import (
    ClassToken,
    EncoderBlock,
    LayerNorm,
    OffDiagonalAttention,
    PatchEmbedding,
    PositionalAttention,
    PositionTable,
    SelfAttention,
)

ATTENTIONS = {
    "positional": PositionalAttention,
    "content": SelfAttention,
    "free": OffDiagonalAttention,
    "uniform": lambda *args, **kwargs: OffDiagonalAttention(
        *args, diagonal=0.0, std=0.0, train_map=False, **kwargs
    ),
}


def wiring(attention: str, std: float | None, add: bool | None) -> tuple[float, bool]:
    """What is unset of `position_std` and `add_positions`: positional attention alone needs no sum.

    Content attention has the vanilla ViT's start of 0.02. The others have 1: maps made from P then
    start with scores of unit variance.
    """
    return (
        (0.02 if attention == "content" else 1.0) if std is None else std,
        attention != "positional" if add is None else add,
    )


def vit(
    image_shape: tuple[int, int, int],
    num_classes: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    attention: str,
    positions: str,
    position_std: float | None,
    add_positions: bool | None,
    patch_size: int,
    depth: int,
    heads: int,
    width: int,
    mlp_width: int,
    pool: str,
    dropout: float,
    drop_path: float,
    dtype: str = "float32",
) -> keras.Model:
    """logits = W norm(pool(block_L(... block_1([t, E x] [+ P], P)))) + b.

    Everything from uint8 pixels on is in the model, normalisation too, so that training, evaluation
    and export share one preprocessing. The keyword arguments are the fields of `config.model`.

    Args:
        image_shape: (H, W, C) in pixels.
        num_classes: K.
        mean, std: a number a channel, in units of 0..255.
        attention: positional, content (the vanilla ViT), free (off-diagonal matrix) or uniform (equal
            frozen maps).
        positions: learned, sincos or none.
        position_std: standard deviation of a learned table's start; None: see `wiring`.
        add_positions: whether P is also added to the tokens; None: see `wiring`.
        patch_size: in pixels. depth: number of blocks L. heads, width, mlp_width: of a block.
        pool: "token" (a class token is put first and read out) or "mean" (over the patches).
        dropout: share of values dropped. drop_path: share of examples that skip a branch of the last
            block, rising from 0 at the first.
        dtype: a Keras precision: float32, mixed_bfloat16 or mixed_float16; logits are float32 always.

    Returns:
        A functional keras.Model: images uint8 (B, H, W, C) -> logits float32 (B, K).

    Raises:
        UserError: the patch does not divide the image, or the heads the width.
    """
    position_std, add_positions = wiring(attention, position_std, add_positions)
    class_token = pool == "token"
    images = keras.Input(image_shape, dtype="uint8", name="images")
    x = keras.layers.Normalization(
        mean=mean, variance=[s * s for s in std], dtype="float32", name="normalization"
    )(images)
    embedding = PatchEmbedding(width, patch_size, dtype=dtype, name="patches")
    tokens = embedding(x)  # (B,N,E)
    if class_token:
        tokens = ClassToken(dtype=dtype, name="class_token")(tokens)  # (B,N+1,E)
    p = None
    if positions != "none" and (add_positions or attention == "positional"):
        p = PositionTable(
            embedding.grid, positions, class_token, position_std, dtype=dtype, name="positions"
        )(tokens)  # (N,E)
        if add_positions:
            tokens = tokens + p  # (B,N,E)
    if dropout:
        tokens = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")(tokens)
    for i in range(depth):
        block = EncoderBlock(
            ATTENTIONS[attention](heads, dtype=dtype, name="attention"),
            mlp_width,
            dropout,
            drop_path * i / max(depth - 1, 1),
            dtype=dtype,
            name=f"block_{i + 1}",
        )
        # The map is an output of the block so that `intermediates` can read it by name.
        tokens, _ = block(tokens, p, return_map=True)
    tokens = LayerNorm(dtype=dtype, name="norm")(tokens)
    if class_token:
        pooled = tokens[:, 0]  # (B,E)
    else:
        pooled = keras.layers.GlobalAveragePooling1D(dtype=dtype, name="mean")(tokens)  # (B,E)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(pooled)  # (B,K)
    return keras.Model(images, logits, name="vit")


def intermediates(model: keras.Model) -> keras.Model:
    """The same model with its inner values as outputs, by name; it shares the weights.

    Args:
        model: a model of `vit`.

    Returns:
        images -> {"patches": (B, N, E), "block_1": tokens after it (B, N, E), "block_1/map": its
        attention map, (H, N, N) or (B, H, N, N), ..., "logits": (B, K)}.
    """
    outputs = {"patches": model.get_layer("patches").output, "logits": model.output}
    for layer in model.layers:
        if isinstance(layer, EncoderBlock):
            outputs[layer.name], outputs[f"{layer.name}/map"] = layer.output
    return keras.Model(model.input, outputs)

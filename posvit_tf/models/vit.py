"""The Vision Transformer, one functional builder for all kinds of attention."""

import keras
import numpy as np
from keras import ops

from posvit_tf import layers
from posvit_tf.errors import UserError
from posvit_tf.layers import (
    ClassToken,
    EncoderBlock,
    LayerNorm,
    PatchEmbedding,
    PositionTable,
    local_maps,
)
from posvit_tf.models.fields import ATTENTIONS
from posvit_tf.models.pixels import normalised


def wiring(attention: str, std: float | None, add: bool | None) -> tuple[float, bool]:
    """What is unset of `position_std` and `add_positions`: maps of places alone need no sum.

    Content attention has the vanilla ViT's start of 0.02. The others have 1: maps made from P then
    start with scores of unit variance.
    """
    return (
        (0.02 if attention == "content" else 1.0) if std is None else std,
        attention not in ("positional", "relative") if add is None else add,
    )


def patch_for(height: int, width: int) -> int:
    """The patch of an image where `patch_size` is unset: at most 12 of them on the longer side.

    Of the sizes from 2 on that divide both sides, the least power of two, or else the least.

    Raises:
        UserError: none does.
    """
    sizes = [p for p in range(2, min(height, width) + 1) if not (height % p or width % p)]
    sizes = [p for p in sizes if max(height, width) <= 12 * p]
    if not sizes:
        raise UserError(
            f"no patch divides {height}x{width} pixels into 12 at most on a side: choose another image "
            "size, of multiples of 16, or set model.patch_size"
        )
    return min(sizes, key=lambda p: (p.bit_count() > 1, p))


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
    patch_size: int | None,
    depth: int,
    heads: int,
    width: int,
    mlp_width: int,
    pool: str,
    dropout: float,
    drop_path: float,
    initial_maps: str = "random",
    key_weights: str = "none",
    gate: bool = False,
    dtype: str = "float32",
    name: str = "vit",
) -> keras.Model:
    """logits = W norm(pool(block_L(... block_1([t, E x] [+ P], P)))) + b.

    Everything from uint8 pixels on is in the model, normalisation too, so that training, evaluation
    and export share one preprocessing. The keyword arguments are the fields of `config.model`.

    Args:
        image_shape: (H, W, C) in pixels.
        num_classes: K.
        mean, std: a number a channel, in units of 0..255.
        attention: positional, content (the vanilla ViT), free (off-diagonal matrix), relative (a score an
            offset) or uniform (equal frozen maps).
        positions: learned, sincos or none.
        position_std: standard deviation of a learned table's start; None: see `wiring`.
        add_positions: whether P is also added to the tokens; None: see `wiring`.
        patch_size: in pixels; None: see `patch_for`.
        depth: number of blocks L. heads, width, mlp_width: of a block.
        pool: "token" (a class token is put first and read out) or "mean" (over the patches).
        dropout: share of values dropped. drop_path: share of examples that skip a branch of the last
            block, rising from 0 at the first.
        key_weights, gate: as `posvit_tf.layers.attention.Attention` takes them.
        initial_maps: random (W_Q, W_K, P and A as drawn) or local (`posvit_tf.layers.local_maps`).
        dtype: a Keras precision: float32, mixed_bfloat16 or mixed_float16; logits are float32 always.
        name: of the model.

    Returns:
        A functional keras.Model: images uint8 (B, H, W, C) -> logits float32 (B, K).

    Raises:
        UserError: the patch does not divide the image, or the heads the width.
    """
    position_std, add_positions = wiring(attention, position_std, add_positions)
    patch_size = patch_size or patch_for(*image_shape[:2])
    class_token = pool == "token"
    images, x = normalised(image_shape, mean, std)
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
    kind, options = ATTENTIONS[attention]
    options = {**options, "key_weights": key_weights, "gate": gate}
    if "grid" in options:
        options["grid"] = embedding.grid
    for i in range(depth):
        block = EncoderBlock(
            getattr(layers, kind)(heads, dtype=dtype, name="attention", **options),
            mlp_width,
            dropout,
            drop_path * i / max(depth - 1, 1),
            dtype=dtype,
            name=f"block_{i + 1}",
        )
        # Of the last block the class token alone is read.
        rows = 1 if class_token and i == depth - 1 else None
        tokens = block(tokens, p, rows=rows)  # (B,N,E), the last (B,1,E)
    norm = LayerNorm(dtype=dtype, name="norm")
    if class_token:
        pooled = norm(tokens[:, 0])  # (B,E)
    else:
        mean = keras.layers.GlobalAveragePooling1D(dtype=dtype, name="mean")
        pooled = mean(norm(tokens))  # (B,E)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(pooled)  # (B,K)
    model = keras.Model(images, logits, name=name)
    if initial_maps == "local":
        start_local(model, heads, width // heads, class_token)
    return model


def start_local(model: keras.Model, heads: int, head: int, class_token: bool) -> None:
    """Makes the maps of every block local, with the first columns of P where they are made of it.

    For content attention nothing but P writes these columns of the tokens at first, so that its maps
    start as local as the others', up to the scale that a LayerNorm gives a token.
    """
    patches = model.get_layer("patches")
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    for layer, block in enumerate(blocks):
        shifts = local_maps.head_shifts(heads, layer)
        block.attention.start_local(patches.grid, shifts, class_token)
    source = blocks[0].attention.source
    if not source:
        return
    waves = local_maps.waves(patches.grid, head, class_token)  # (N,C)
    columns = waves.shape[1]
    table = model.get_layer("positions").table
    table.assign(ops.concatenate([waves, table[:, columns:]], axis=1))  # (N,E)
    if source == "tokens":
        others = np.arange(heads * head) >= columns
        branches = [dense for block in blocks for dense in (block.attention.out, block.mlp.out)]
        for dense in (patches.projection, *branches):
            dense.kernel.assign(dense.kernel * others)


class WithMap(keras.layers.Layer):
    """A block that returns its map, too: Keras takes no more outputs of a layer than its first call has.

    Args:
        block: an `EncoderBlock`; its weights are shared.

    Call arguments and results: those of the block with return_map=True.
    """

    def __init__(self, block: EncoderBlock):
        super().__init__(dtype=block.dtype_policy)
        self.block = block

    def call(self, tokens, positions=None, rows=None):
        return self.block(tokens, positions, rows=rows, return_map=True)


def intermediates(model: keras.Model) -> keras.Model:
    """The same model with its inner values as outputs, by name; it shares the weights.

    The last block goes through all tokens here, not the class token alone.

    Args:
        model: a model of `vit`.

    Returns:
        images -> {"patches": (B, N, E), "block_1": tokens after it (B, N, E), "block_1/map": its
        attention map, (H, N, N) or (B, H, N, N), ..., "logits": (B, K)}.
    """
    outputs = {}

    def call(layer, *args, **kwargs):
        if isinstance(layer, EncoderBlock):
            result, found = WithMap(layer)(*args, rows=None)
            outputs[layer.name], outputs[f"{layer.name}/map"] = result, found
            return result
        result = layer(*args, **kwargs)
        if layer.name in ("patches", "logits"):
            outputs[layer.name] = result
        return result

    whole = shared_clone(model, call)
    return keras.Model(whole.input, outputs)


def shared_clone(model: keras.Model, call) -> keras.Model:
    """The graph of the model made anew of its own layers, each by `call(layer, *args, **kwargs)`."""
    return keras.models.clone_model(model, call_function=call, clone_function=lambda layer: layer)


def frozen(model: keras.Model) -> keras.Model:
    """The same function with the maps that no image changes as constants: P, W_Q, W_K, A are not used.

    Args:
        model: with its weights, which are shared. P stays where it is added to the tokens.

    Returns:
        images -> logits; the model itself where all maps depend on the image, or it has none.
    """
    outputs = {}

    def mapped(layer, *args, **kwargs):
        if not isinstance(layer, EncoderBlock) or layer.attention.source == "tokens":
            return layer(*args, **kwargs)
        result, outputs[layer.name] = WithMap(layer)(*args, **kwargs)
        return result

    whole = shared_clone(model, mapped)
    if not outputs:
        return model
    black = np.zeros((1, *model.input_shape[1:]), "uint8")
    maps = keras.Model(whole.input, outputs)(black)  # (H,R,N) each

    def call(layer, *args, **kwargs):
        if layer.name not in maps:
            return layer(*args, **kwargs)
        return layer(args[0], attention_map=ops.convert_to_numpy(maps[layer.name]))

    return shared_clone(model, call)


def map_variables(model: keras.Model) -> list[keras.Variable]:
    """What the maps come from beside the tokens: W_Q and W_K, P where it alone is read, or free scores."""
    found = []
    for layer in model.layers:
        if isinstance(layer, EncoderBlock):
            found += layer.attention.map_variables
            source = layer.attention.source
    if found and source == "positions":
        found += model.get_layer("positions").variables
    return found


def freeze_attention(model: keras.Model) -> None:
    """All that the maps come from is trained no more: `map_variables`.

    The paper's transfer: the maps stay, and the rest learns anew.

    Args:
        model: a model of `vit` whose maps no token makes, before its optimizer is made.
    """
    for variable in map_variables(model):
        variable.trainable = False

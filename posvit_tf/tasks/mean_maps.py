"""A trained content model as the start of one whose maps no token makes: by each head's mean map."""

import keras
import numpy as np
from ml_collections import ConfigDict

from posvit_tf.analysis.similarity import total_variation
from posvit_tf.config import complete
from posvit_tf.data import permute
from posvit_tf.data.splits import Source
from posvit_tf.errors import UserError
from posvit_tf.layers import EncoderBlock, OffDiagonalAttention
from posvit_tf.models.build import build
from posvit_tf.models.vit import intermediates, map_variables
from posvit_tf.training import checkpoint
from posvit_tf.training.pretrained import Pretrained

IMAGES = 1024  # of the training split, evenly spaced, whose maps are averaged
BATCH = 64


def fits(start: Pretrained, config: ConfigDict) -> bool:
    """Whether a run goes from a content model's weights to maps that no token makes."""
    there, here = (fields.get("attention") for fields in (start.record["model"], config.model))
    return there == "content" and here in ("positional", "free")


def convert(start: Pretrained, model: keras.Model, config: ConfigDict, source: Source) -> str:
    """Gives the model the content model's weights, and maps that start as that model's mean maps.

    Of each head, M = mean over IMAGES images of softmax(Q K^T / sqrt(dh)). A free matrix becomes
    log M_ij - log M_ii + its fixed diagonal, whose softmax is M. Positional attention gets W_Q and W_K by
    `low_rank`. Key weights start equal. Everything else is copied.

    Args:
        start: from `pretrained.find`.
        model: to fill, of `config`.
        source: whose training images are looked at.

    Returns:
        A line for people a layer: how far the new maps are from the means.

    Raises:
        UserError: the models differ in more than where the maps come from, or the classes or sizes differ.
    """
    content = content_model(start, config, source)
    copy(content, model, start)
    maps = mean_maps(content, images_of(config, source))
    lines = [f"weights of {start.file}, of content attention; maps start as its mean maps"]
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    for block, mean in zip(blocks, maps, strict=True):
        attention, logs = block.attention, np.log(mean)  # (H,N,N)
        if isinstance(attention, OffDiagonalAttention):
            own = np.diagonal(logs, axis1=1, axis2=2)[..., None]  # (H,N,1)
            attention.off_diagonal.assign(logs - own + attention.diagonal)
        else:
            positions = keras.ops.convert_to_numpy(model.get_layer("positions").table)  # (N,E)
            for dense, kernel in zip(
                (attention.query, attention.key),
                low_rank(logs, positions, attention.head),
                strict=True,
            ):
                dense.set_weights([kernel, np.zeros(dense.units)])
    found = mean_maps(model, images_of(config, source)[:1])
    for block, mean, own in zip(blocks, maps, found, strict=True):
        moved = total_variation(mean, own)  # (H,)
        lines.append(
            f"  {block.name}: total variation from the mean map {moved.mean():.3f}, at most {moved.max():.3f}"
        )
    return "\n".join(lines)


def content_model(start: Pretrained, config: ConfigDict, source: Source) -> keras.Model:
    """The model that the weights are of, for the same images and classes."""
    for what, there, here in (
        ("class names", tuple(start.record["facts"]["class_names"]), tuple(source.class_names)),
        ("image size", tuple(start.record["facts"]["image_shape"]), source.train.images.shape[1:]),
    ):
        if there != tuple(here):
            raise UserError(
                f"{start.file} is of other {what}: maps are read off the images that it was trained on; "
                "convert with its own data first, and go on from that run"
            )
    there = ConfigDict({"task": "classify", "model": start.record["model"]})
    complete(there)
    content = build(there, start.record["facts"])
    checkpoint.assign(
        checkpoint.named(content.weights, "weights"), dict(start.weights), str(start.file)
    )
    return content


def copy(content: keras.Model, model: keras.Model, start: Pretrained) -> None:
    """All weights but what the maps come from, by their paths; key weights become equal.

    Raises:
        UserError: a weight is missing there, or has another shape.
    """

    def paths(one: keras.Model) -> dict[str, keras.Variable]:
        maps = {id(v) for v in map_variables(one)} - {id(v) for v in tables(one)}
        return {v.path: v for v in one.weights if id(v) not in maps}

    def tables(one: keras.Model) -> list[keras.Variable]:
        return [v for v in one.weights if v.name == "table"]

    there, here = paths(content), paths(model)
    for path, variable in here.items():
        if path.endswith("token_key/kernel"):
            variable.assign(keras.ops.zeros_like(variable))
        elif path not in there or there[path].shape != variable.shape:
            raise UserError(
                f"{start.file} has no {path} of shape {tuple(variable.shape)}: set the model's fields as "
                "there, all but attention and key_weights (and model.add_positions=true, as content has it)"
            )
        else:
            variable.assign(there[path])
    lost = there.keys() - here.keys()
    if lost:
        raise UserError(
            f"{start.file} has {min(lost)}, for which this model has no place: set the model's fields as "
            "there, all but attention and key_weights (and model.add_positions=true, as content has it)"
        )


def images_of(config: ConfigDict, source: Source) -> np.ndarray:
    """At most IMAGES of the training images (n, H, W, C), evenly spaced, as the model sees them."""
    images = source.train.images
    some = images[:: max(1, len(images) // IMAGES)][:IMAGES]
    return permute.permuted(some, permute.pixel_order(config.data, images.shape))


def mean_maps(model: keras.Model, images: np.ndarray) -> list[np.ndarray]:
    """The map of each block, averaged over the images where it depends on them: (H, N, N) float64."""
    inner = intermediates(model)
    sums, blocks = None, [layer.name for layer in model.layers if isinstance(layer, EncoderBlock)]
    for first in range(0, len(images), BATCH):
        part = images[first : first + BATCH]
        values = inner(part)
        found = [keras.ops.convert_to_numpy(values[f"{name}/map"]) for name in blocks]
        found = [a.sum(axis=0, dtype="float64") if a.ndim == 4 else a * len(part) for a in found]
        sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
    return [np.maximum(a / len(images), np.finfo("float32").tiny) for a in sums]


def low_rank(logs: np.ndarray, positions: np.ndarray, head: int) -> tuple[np.ndarray, np.ndarray]:
    """W_Q and W_K with (P W_Q)(P W_K)^T / sqrt(dh) the rank-dh matrix nearest to the centred scores.

    Rows of scores are centred, as a softmax ignores what a row has in common, and weighted alike; the best
    rank-dh matrix is that of the singular values. P W = its factor is solved by least squares, exactly where
    the rows of P are independent.

    Args:
        logs: log M (H, N, N).
        positions: P (N, E).
        head: dh.

    Returns:
        W_Q, W_K: (E, H*dh) each.
    """
    scores = logs - logs.mean(axis=-1, keepdims=True)  # (H,N,N)
    left, values, right = np.linalg.svd(scores)  # (H,N,N), (H,N), (H,N,N)
    scale = np.sqrt(values[:, :head] * head**0.5)[:, None]  # (H,1,dh)
    factors = (left[..., :head] * scale, right.swapaxes(1, 2)[..., :head] * scale)  # (H,N,<=dh)
    spare = ((0, 0), (0, 0), (0, head - scale.shape[-1]))
    query, key = (np.pad(x, spare) for x in factors)  # (H,N,dh)
    inverse = np.linalg.pinv(positions.astype("float64"))  # (E,N)
    return tuple(np.concatenate(list(inverse @ x), axis=1) for x in (query, key))  # (E,H*dh) each

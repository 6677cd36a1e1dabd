"""Every picture that applies to a trained model, from its weights and its log."""

from pathlib import Path

import keras
import numpy as np
from keras import ops

from posvit_tf.analysis import plots
from posvit_tf.analysis.similarity import total_variation
from posvit_tf.models.vit import intermediates


def float32(tensor) -> np.ndarray:
    """A tensor of any precision as a float32 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def attention_maps(model: keras.Model, images: np.ndarray) -> list[np.ndarray]:
    """A of each block for images (B, H, W, C): (H, N, N), or (B, H, N, N) for content attention."""
    inner = intermediates(model)(images)
    return [float32(value) for name, value in inner.items() if name.endswith("/map")]


def map_movement(starts: list[np.ndarray], ends: list[np.ndarray]) -> np.ndarray:
    """How far each head's map is from its start, by `total_variation`, a mean over the images.

    Args:
        starts, ends: of `attention_maps`, on the same images.

    Returns:
        (L, H) in [0, 1].
    """
    moved = np.stack([total_variation(*pair) for pair in zip(starts, ends, strict=True)])
    return moved.mean(axis=1) if moved.ndim == 3 else moved  # (L,[B,]H) -> (L,H)


def write_all(
    model: keras.Model,
    lines: list[dict],
    folder: Path,
    images: np.ndarray | None = None,
    movement: np.ndarray | None = None,
) -> list[tuple[Path, str]]:
    """Writes the learning curves of a training, and the maps of positions, scores and attention.

    Args:
        model: of `posvit_tf.models`; one without patches has learning curves alone.
        lines: of metrics.jsonl.
        folder: for the PNG files; made where it is missing.
        images: uint8 (n, H, W, C), a few for content attention, whose maps depend on them; without
            them its maps are left out.
        movement: of `map_movement`, where the start is known.

    Returns:
        (path, caption) of each picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def write(plot, *args, **kwargs):
        path = folder / f"{plot.__name__}.png"
        written.append((path, plot(*args, path=path, **kwargs)))

    layers = {layer.name: layer for layer in model.layers}
    if any(line["split"] == "train" for line in lines):
        write(plots.learning_curves, lines)
    if "patches" not in layers:
        return written
    grid = layers["patches"].grid
    first = int("class_token" in layers)  # the row of the first patch
    if grid == (1, 1):  # one patch: nothing to map
        return written
    if movement is not None:
        write(plots.map_movement, movement)
    if "positions" in layers:
        table = float32(layers["positions"].table)  # (N,E)
        write(plots.similarity_map, table[first:], grid)

    attention = layers["block_1"].attention
    content = attention.source == "tokens"
    if content and images is None:
        return written
    # Maps that no image changes are read off a black one.
    black = np.zeros((1, *model.input.shape[1:]), "uint8")
    maps = attention_maps(model, images if content else black)
    if content:
        maps = [a.mean(axis=0) for a in maps]  # (H,N,N)
        note = f"These maps differ by image: the mean over {len(images)} images is shown."
    else:
        note = "These maps are the same for every image."
    maps = [a[:, first:, first:] for a in maps]
    if not content:
        write(plots.score_map, maps, attention.score_formula, grid)
    write(plots.attention_maps, maps, grid, note=note)
    return written

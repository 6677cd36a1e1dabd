"""Every picture that applies to a trained ViT, from its weights and its log."""

from pathlib import Path

import keras
import numpy as np
from keras import ops

from posvit_tf.analysis import plots
from posvit_tf.layers import EncoderBlock, PositionalAttention, SelfAttention
from posvit_tf.models.vit import intermediates


def float32(tensor) -> np.ndarray:
    """A tensor of any precision as a float32 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def write_all(
    model: keras.Model, lines: list[dict], folder: Path, images: np.ndarray | None = None
) -> list[tuple[Path, str]]:
    """Writes learning curves, and the maps of positions, scores and attention that the model has.

    Args:
        model: of `posvit_tf.models.vit.vit`.
        lines: of metrics.jsonl.
        folder: for the PNG files; made where it is missing.
        images: uint8 (n, H, W, C), a few for content attention, whose maps depend on them; without
            them its maps are left out.

    Returns:
        (path, caption) of each picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def write(plot, *args):
        path = folder / f"{plot.__name__}.png"
        written.append((path, plot(*args, path)))

    names = {layer.name for layer in model.layers}
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    grid = model.get_layer("patches").grid
    first = int("class_token" in names)  # the first patch's row
    attention = blocks[0].attention
    # (the body continues below)
    return written

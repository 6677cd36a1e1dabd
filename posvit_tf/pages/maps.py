"""Where a ViT looks: its positions, scores and attention maps over the patch grid, as small pictures."""

import keras
import matplotlib
import numpy as np

from posvit_tf.analysis import locality, plots, similarity
from posvit_tf.analysis.figures import attention_maps, float32
from posvit_tf.analysis.rollout import rollout
from posvit_tf.pages import html

DOT = 5  # pixels a patch, so that a dot fits in
WIDEST = 1000  # pixels of a picture of tiles
ROLLOUTS = 8  # images
HEAT = matplotlib.colormaps["cividis"]


def colors(values: np.ndarray, limit: float) -> np.ndarray:
    """Values from -limit to limit as uint8 (..., 3); nan is white."""
    return plots.SIGNED((values / limit + 1) / 2, bytes=True)[..., :3]


def bar(colormap: matplotlib.colors.Colormap) -> str:
    """A colour bar, as a CSS gradient."""
    stops = [matplotlib.colors.to_hex(colormap(x)) for x in np.linspace(0, 1, 9)]
    return f"background:linear-gradient(to right,{','.join(stops)})"


def tiles_picture(matrix: np.ndarray, grid: tuple[int, int], limit: float) -> str:
    """M (N, N) as a data URI: row i as a tile in the place of patch i, a black dot on i itself."""
    tiles = plots.by_position(matrix, grid)["tiles"]
    pixels = colors(plots.joined(tiles), limit)  # (h,w,3)
    side = DOT if max(pixels.shape) * DOT <= WIDEST else 1
    pixels = pixels.repeat(side, axis=0).repeat(side, axis=1)
    row, col = np.indices(grid)
    y = (row * (grid[0] + 1) + row) * side + side // 2
    x = (col * (grid[1] + 1) + col) * side + side // 2
    pixels[y, x] = 0
    return html.png(pixels)


def head_tiles(maps: np.ndarray, grid: tuple[int, int]) -> dict:
    """Every head's mean attention by offset, its reach and whether chance explains it.

    Args:
        maps: A (L, H, N, N), class token left out.
        grid: (rows, cols).
    """
    a = locality.over_patches(maps)  # (L,H,N,N)
    means = a.shape[-1] * similarity.mean_by_offset(a, grid)  # (L,H,h,w)
    limit = int(np.clip(np.ceil(np.log2(means.max())), 1, 3))
    tiles = colors(np.log2(np.maximum(means, 2.0**-limit)), limit)  # (L,H,h,w,3)
    distance, score = locality.mean_distance(a, grid), locality.locality_score(a, grid)  # (L,H)
    shuffled = locality.chance(a, grid, np.random.default_rng(0))  # (99,L,H)
    beyond = (score > shuffled.max(axis=0)).astype(int) - (score < shuffled.min(axis=0))
    return {
        "layers": [
            [
                {
                    "picture": html.png(tiles[layer, head]),
                    "distance": distance[layer, head],
                    "score": round(float(score[layer, head]), 2) + 0.0,  # no -0.00
                    "beyond": int(beyond[layer, head]),
                }
                for head in range(a.shape[1])
            ]
            for layer in range(a.shape[0])
        ],
        "limit": 2**limit,
        "near": int((beyond == 1).sum()),
        "far": int((beyond == -1).sum()),
        "heads": beyond.size,
        "distance": float(distance.mean()),
        "uniform": float(locality.grid_distance(grid).mean()),
        "verdict": plots.verdict(
            a.mean(axis=(0, 1)), grid, "attention, averaged over heads and layers"
        ),
    }


def overlay(image: np.ndarray, heat: np.ndarray) -> str:
    """An image in grey under a heat map in colour, as a data URI.

    Args:
        image: uint8 (H, W, C).
        heat: (rows, cols) in [0, 1], a number a patch.
    """
    size = max(image.shape[:2])
    times = max(1, round(html.SIDE / size))
    grey = image.mean(axis=-1).repeat(times, axis=0).repeat(times, axis=1)  # (h,w)
    color = HEAT(heat, bytes=True)[..., :3]  # (rows,cols,3)
    for axis in (0, 1):
        color = color.repeat(grey.shape[axis] // color.shape[axis], axis=axis)  # (h,w,3)
    return html.photo((0.4 * grey[..., None] + 0.6 * color).astype("uint8"))


def rollouts(maps: np.ndarray, images: np.ndarray, grid: tuple[int, int], first: int) -> dict:
    """Attention rollout from what the logits are read from to the patches, an image each.

    Args:
        maps: A (L, B, H, T, T), class token included.
        images: uint8 (B, H, W, C).
        grid: (rows, cols).
        first: the row of the first patch: 1 with a class token, which is read out then, 0 without,
            where the mean over the patches is.
    """
    shares = rollout(maps)  # (B,T,T)
    shares = shares[:, 0, 1:] if first else shares.mean(axis=1)  # (B,N)
    times = shares / shares.mean(axis=1, keepdims=True)  # of an equal share
    low, high = float(times.min()), float(times.max())
    heat = ((times - low) / max(high - low, 1e-6)).reshape(-1, *grid)  # (B,rows,cols)
    return {
        "low": low,
        "high": high,
        "class_token": bool(first),
        "bar": bar(HEAT),
        "pairs": [(html.photo(i), overlay(i, h)) for i, h in zip(images, heat, strict=True)],
    }


def section(model: keras.Model, images: np.ndarray) -> dict | None:
    """What the template shows of positions and attention; None for a model without a grid of patches.

    Args:
        model: of a run.
        images: uint8 (B, H, W, C), a few as the model sees them, for content attention.
    """
    layers = {layer.name: layer for layer in model.layers}
    if "patches" not in layers or layers["patches"].grid == (1, 1):
        return None
    grid, first = layers["patches"].grid, int("class_token" in layers)
    found = {"grid": grid, "bar": bar(plots.SIGNED), "similarity": None, "scores": None}
    if "positions" in layers:
        matrix = similarity.position_similarity(float32(layers["positions"].table)[first:])
        found["similarity"] = {
            "picture": tiles_picture(matrix, grid, 1.0),
            "verdict": plots.verdict(matrix, grid, "cosine similarity"),
        }
    maps = np.stack(attention_maps(model, images))  # (L,H,T,T), content: (L,B,H,T,T)
    content = maps.ndim == 5
    patches = (maps.mean(axis=1) if content else maps)[..., first:, first:]  # (L,H,N,N)
    found["rollout"] = (
        rollouts(maps[:, :ROLLOUTS], images[:ROLLOUTS], grid, first) if content else None
    )
    found["images"] = len(images) if content else None
    if not content:
        scores = similarity.centred_scores(patches).mean(axis=(0, 1))  # (N,N)
        limit = float(np.abs(scores[~np.eye(len(scores), dtype=bool)]).max()) or 1.0
        found["scores"] = {
            "picture": tiles_picture(scores, grid, limit),
            "limit": limit,
            "verdict": plots.verdict(scores, grid, "scores"),
        }
    return {**found, "heads": head_tiles(patches, grid)}

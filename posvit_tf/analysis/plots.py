"""Arrays in, one PNG file each, under it a caption that says what is seen, and what is not.

A grid is (rows, cols) of patches, counted row by row; the class token is left out by the caller.
Every picture's function returns the caption that it wrote.
"""

import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from posvit_tf.analysis import locality, similarity
from posvit_tf.text import counted

# Colours that stay apart for colour-blind readers (Okabe and Ito).
COLORS = {"train": "#999999", "eval": "#0072B2", "test": "#D55E00"}
SIGNED = matplotlib.colormaps["PuOr_r"].with_extremes(bad="white")


def page(width: float, height: float, title: str, caption: str):
    """A figure with room for axes between its title and its caption, both wrapped.

    Args:
        width, height: of that room, in inches.

    Returns:
        The figure, and add_axes(x, y, w, h), in inches from the room's lower left.
    """
    lines = textwrap.wrap(caption, int(14 * width))
    heading = textwrap.wrap(title, int(10.5 * width))
    foot = 0.15 + 0.17 * len(lines)
    total = foot + height + 0.25 + 0.2 * len(heading)
    figure = Figure((width, total), dpi=130)
    figure.text(0.15 / width, 0.1 / total, "\n".join(lines), size=9, va="bottom", linespacing=1.25)
    figure.text(0.5, 1 - 0.15 / total, "\n".join(heading), size=12, va="top", ha="center")

    def add_axes(x, y, w, h):
        return figure.add_axes((x / width, (foot + y) / total, w / width, h / total))

    return figure, add_axes


def learning_curves(lines: list[dict], path: Path) -> str:
    """Loss and accuracy by update: training thin, evaluation strong, the test a point.

    Args:
        lines: of metrics.jsonl, each with step, epoch (from 1), split (train, eval or test), loss,
            accuracy and examples; any split may be missing.
        path: of the PNG.
    """
    last = {line["split"]: line for line in lines}
    found = [
        f"{split} accuracy {last[split]['accuracy']:.1%}, loss {last[split]['loss']:.3f}"
        + (f" ({counted(last[split]['examples'], 'image')})" if split != "train" else "")
        for split in ("test", "eval", "train")
        if split in last
    ]
    caption = (
        f"After {counted(max(line['step'] for line in lines), 'update')}: {'; '.join(found)}. Training is "
        "measured while the weights change, under any augmentation, dropout and label smoothing: "
        "it may look worse than evaluation."
    )
    figure, add_axes = page(9.6, 3.6, "Learning curves", caption)
    for x, name in ((0.75, "loss"), (5.5, "accuracy")):
        draw_curve(add_axes(x, 0.55, 3.9, 3.0), lines, name)
    figure.savefig(path)
    return caption


def draw_curve(axes: Axes, lines: list[dict], name: str) -> None:
    """`loss` or `accuracy` by update, a colour a split."""
    last = {line["split"]: line for line in lines}
    for split in last:
        own = [line for line in lines if line["split"] == split]
        axes.plot(
            [line["step"] for line in own],
            [line[name] for line in own],
            color=COLORS[split],
            linewidth={"train": 1, "eval": 2.2, "test": 0}[split],
            marker={"train": "." if len(own) < 3 else "", "eval": "o", "test": "D"}[split],
            markersize={"train": 5, "eval": 4 if len(own) < 40 else 0, "test": 8}[split],
            zorder={"train": 1, "eval": 2, "test": 3}[split],
            label=f"{split} {own[-1][name]:.3f}",
        )
    axes.set_xlim(left=-0.02 * max(line["step"] for line in lines))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("update")
    axes.set_ylabel(name)
    axes.grid(alpha=0.3)
    axes.legend(title="last value", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_tiles(
    tiles: np.ndarray,
    path: Path,
    *,
    title: str,
    caption: str,
    axis_names: tuple[str, str],
    bar_name: str,
    limit: float,
    bar_ticks: dict[float, str] | None = None,
    dots: np.ndarray,
):
    """One picture of tiles (R, C, h, w) in R rows and C columns, colours from -limit to limit.

    Args:
        axis_names: what the rows and the columns of tiles are.
        bar_ticks: value -> label, where the colour bar's own do not serve.
        dots: (R, C, 2), the (row, column) inside a tile that gets a dot.
    """
    rows, cols, h, w = tiles.shape
    image = joined(tiles)
    scale = 7.0 / max(image.shape)
    height, width = (scale * side for side in image.shape)
    # A strip of tiles still gets room for its title and its colour bar.
    tall, wide = max(height, 2.0), max(width, 4.5)
    figure, add_axes = page(wide + 2.2, tall + 0.55, title, caption)
    left, bottom = 0.75 + (wide - width) / 2, 0.5 + (tall - height) / 2
    axes = add_axes(left, bottom, width, height)
    shown = axes.imshow(
        image, cmap=SIGNED, vmin=-limit, vmax=limit, interpolation="nearest", aspect="auto"
    )
    y = dots[..., 0] + np.arange(rows)[:, None] * (h + 1)
    x = dots[..., 1] + np.arange(cols) * (w + 1)
    axes.scatter(x, y, s=max(72 * scale * 0.3, 1.2) ** 2, color="black", linewidths=0)
    for axis, count, side, name in (
        (axes.yaxis, rows, h, axis_names[0]),
        (axes.xaxis, cols, w, axis_names[1]),
    ):
        axis.set_ticks(np.arange(count) * (side + 1) + (side - 1) / 2, np.arange(count) + 1)
        axis.set_label_text(name)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, cax=add_axes(left + width + 0.2, 0.5, 0.16, tall))
    bar.set_label(bar_name)
    if bar_ticks:
        bar.set_ticks(list(bar_ticks), labels=list(bar_ticks.values()))
    figure.savefig(path)


def joined(tiles: np.ndarray) -> np.ndarray:
    """Tiles (R, C, h, w) side by side, nan between them: (R*(h+1) - 1, C*(w+1) - 1)."""
    rows, cols, h, w = tiles.shape
    framed = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    framed = framed.transpose(0, 2, 1, 3)  # (R,h+1,C,w+1)
    return framed.reshape(rows * (h + 1), cols * (w + 1))[:-1, :-1]


def by_position(matrix: np.ndarray, grid: tuple[int, int]) -> dict:
    """M (N, N) for `draw_tiles`: row i as a tile in the place of patch i, over the grid of j."""
    return dict(
        tiles=matrix.reshape(*grid, *grid),  # (rows,cols,rows,cols)
        dots=np.moveaxis(np.indices(grid), 0, -1),  # (rows,cols,2)
        axis_names=("row of the patch", "column of the patch"),
    )


def verdict(matrix: np.ndarray, grid: tuple[int, int], what: str) -> str:
    """What `distance_correlation` allows to say of M (N, N), as a sentence about `what`."""
    r, chance = similarity.distance_correlation(matrix, grid)
    if abs(r) <= chance:
        found = f"No spatial structure beyond chance in {what}"
    else:
        found = (
            f"{'Nearby' if r > 0 else 'Distant'} patches have {'slightly ' if abs(r) < 0.2 else ''}"
            f"higher {what}"
        )
    return (
        f"{found} (correlation with nearness {r:+.2f}, with shuffled positions up to {chance:.2f})."
    )


def similarity_map(table: np.ndarray, grid: tuple[int, int], path: Path) -> str:
    """cos(p_i, p_j): a tile a position i, over the grid of j, on a fixed scale (paper, figure 8).

    Args:
        table: P (N, E).
        grid: (rows, cols).
        path: of the PNG.
    """
    matrix = similarity.position_similarity(table)
    caption = (
        verdict(matrix, grid, "cosine similarity")
        + " The tile in the place of a patch compares the encoding of that patch (dot) with all."
    )
    draw_tiles(
        **by_position(matrix, grid),
        path=path,
        title="Similarity of the position encodings",
        caption=caption,
        bar_name="cosine similarity",
        limit=1.0,
    )
    return caption


def score_map(maps: list[np.ndarray], formula: str, grid: tuple[int, int], path: Path) -> str:
    """s_ij - mean_(k != i) s_ik: a tile a position i, over the grid of j.

    Args:
        maps: A (H, N, N) a layer, softmax of the scores s; shown is the mean over heads and layers.
        formula: how to write s_ij.
        grid: (rows, cols).
        path: of the PNG.
    """
    scores = similarity.centred_scores(np.concatenate(maps)).mean(axis=0)  # (N,N)
    caption = (
        verdict(scores, grid, "scores")
        + " The tile in the place of a patch shows how that patch (dot) scores all before the "
        f"softmax: {formula}, mean over heads and layers, less the tile's mean, which the softmax "
        "ignores. A patch's score of itself may lie beyond the scale."
    )
    draw_tiles(
        **by_position(scores, grid),
        path=path,
        title="Attention scores of the positions",
        caption=caption,
        bar_name="score less the tile's mean",
        limit=np.abs(scores[~np.eye(len(scores), dtype=bool)]).max() or 1.0,
    )
    return caption


def attention_maps(maps: list[np.ndarray], grid: tuple[int, int], path: Path, note: str) -> str:
    """n m(o), m(o) = mean_i A_(i, i+o), 1 where attention is uniform: a tile a head, a row a layer.

    The mean by offset shows at one look what a head prefers wherever it stands; a map without such
    a preference comes out blank, where any single row of it would look busy.

    Args:
        maps: A (H, N, N) a layer; rows are scaled to sum to 1 over the patches.
        grid: (rows, cols).
        path: of the PNG.
        note: a sentence for the caption: where the maps come from.
    """
    a = locality.over_patches(np.stack(maps))  # (L,H,N,N)
    layers, heads, n, _ = a.shape
    means = n * similarity.mean_by_offset(a, grid)  # (L,H,h,w)
    r, chance = similarity.distance_correlation(a, grid)
    overall = a.mean(axis=(0, 1))  # (N,N)
    reach = locality.mean_distance(overall, grid)
    uniform = locality.grid_distance(grid).mean()
    caption = (
        verdict(overall, grid, "attention, averaged over heads and layers")
        + f" Beyond chance, {(r > chance).sum()} of {r.size} heads favour nearby and "
        f"{(r < -chance).sum()} distant patches (luck alone: about {r.size / 100:.1g}). Mean "
        f"attention distance {reach:.2f} patches, uniform {uniform:.2f}. A tile shows the attention"
        " that a patch (dot) gives to the patch at an offset from it, up to half the grid, averaged"
        f" over all patches. {note}"
    )
    # At least x2, so that noise stays pale; at most x8, so that one sharp head bleaches no other.
    limit = int(np.clip(np.ceil(np.log2(means.max())), 1, 3))
    draw_tiles(
        np.log2(np.maximum(means, 2.0**-limit)),
        path,
        title="Attention of each layer and head by offset",
        caption=caption,
        axis_names=("layer", "head"),
        bar_name="attention / uniform attention",
        limit=limit,
        bar_ticks={
            **{t: f"{2**t}" if t >= 0 else f"1/{2**-t}" for t in range(-limit, limit + 1)},
            -limit: f"\N{LESS-THAN OR EQUAL TO}1/{2**limit}",
            limit: f"\N{GREATER-THAN OR EQUAL TO}{2**limit}",
        },
        dots=np.broadcast_to([side // 2 for side in means.shape[-2:]], (layers, heads, 2)),
    )
    return caption


def map_movement(movement: np.ndarray, path: Path) -> str:
    """How far the map of each head is from its start: a square a head, a row a layer.

    Args:
        movement: total-variation distances (L, H) in [0, 1].
        path: of the PNG.
    """
    layers, heads = movement.shape
    most = np.unravel_index(movement.argmax(), movement.shape)
    caption = (
        f"On average a token gives {movement.mean():.0%} of its attention elsewhere than before "
        f"training (total-variation distance; 0: the map is as it was, 1: all of it moved). By layer: "
        f"{', '.join(f'{layer:.2f}' for layer in movement.mean(axis=1))}. The most, "
        f"{movement.max():.2f}, is layer {most[0] + 1}, head {most[1] + 1}."
    )
    side = min(0.6, 7.0 / max(layers, heads))
    height, width = layers * side, heads * side
    wide, tall = max(width, 4.5), max(height, 1.8)
    figure, add_axes = page(
        wide + 2.2, tall + 0.55, "How far the maps moved from their start", caption
    )
    left, bottom = 0.75 + (wide - width) / 2, 0.5 + (tall - height) / 2
    axes = add_axes(left, bottom, width, height)
    shown = axes.imshow(movement, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for (layer, head), value in np.ndenumerate(movement):
        axes.text(
            head,
            layer,
            f"{value:.2f}",
            ha="center",
            va="center",
            size=min(9, 16 * side),
            color="white" if value < 0.5 else "black",
        )
    axes.set_xticks(range(heads), range(1, heads + 1))
    axes.set_yticks(range(layers), range(1, layers + 1))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, cax=add_axes(left + width + 0.2, 0.5, 0.16, tall))
    bar.set_label("distance from the start")
    figure.savefig(path)
    return caption

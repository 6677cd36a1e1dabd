"""The pictures of a sweep: accuracies over seeds, beside the paper's where it has any.

Each takes the cells of a sweep, {axes: {axis: value}, accuracy: `seeds.spread`, paper: in %, ...},
writes one PNG with its caption under it, and returns the caption.
"""

from pathlib import Path

import numpy as np
from matplotlib.ticker import NullLocator

from posvit_tf.analysis.plots import SIGNED, page
from posvit_tf.analysis.similarity import mean_by_offset
from posvit_tf.text import counted

# Okabe and Ito: apart for colour-blind readers, too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "D", "^")
OTHER_SCALE = (
    "Much less training and fewer images here than in the paper: the levels do not compare."
)


def boxes(result: dict, title: str, note: str, path: Path) -> str:
    """Box plots over seeds (paper, figure 7): a pair of panels a value of the first axis, here and paper.

    Args:
        result: of a sweep of two axes; a cell's paper is (median, first, third quartile).
        title: of the picture. note: a sentence for the caption, or "".
        path: of the PNG.
    """
    cells = result["cells"]
    groups = list(dict.fromkeys(next(iter(cell["axes"].values())) for cell in cells))
    caption = (
        f"Test accuracy of {counted(len(result['seeds']), 'seed')}: line at the median, box from the "
        "first to the third quartile, whiskers to the least and the greatest, a dot a seed. Beside it the "
        "paper's median and quartiles of 10 seeds after 200 epochs"
        + ("." if result["scale"] == "paper" else f", on a scale of its own. {OTHER_SCALE}")
        + (f" {note}" if note else "")
    )
    width = 4.6 * len(groups)
    figure, add_axes = page(max(width, 6.0), 3.3, title, caption)
    for number, group in enumerate(groups):
        own = [cell for cell in cells if group in cell["axes"].values()]
        names = [list(cell["axes"].values())[1] for cell in own]
        left = 4.6 * number + max(6.0 - width, 0) / 2
        here, there = add_axes(left + 0.75, 0.4, 1.65, 2.5), add_axes(left + 2.95, 0.4, 1.5, 2.5)
        here.set_title(f"{group}, here", size=10)
        there.set_title(f"{group}, paper", size=10)
        here.set_ylabel("test accuracy (%)")
        for place, cell in enumerate(own):
            values = 100 * np.array(cell["accuracy"]["per_seed"])
            found = np.percentile(values, (50, 25, 75))
            box(here, place, found, (values.min(), values.max()), COLORS[place])
            shift = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else 0
            here.plot(place + shift, values, "o", color="black", markersize=3.5, zorder=3)
            if cell["paper"]:
                box(there, place, cell["paper"], tuple(cell["paper"][1:]), COLORS[place])
        for axes in (here, there):
            axes.set_xticks(range(len(own)), names, size=9)
            axes.set_xlim(-0.6, len(own) - 0.4)
            axes.grid(axis="y", alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        if result["scale"] == "paper":
            low, high = zip(here.get_ylim(), there.get_ylim(), strict=True)
            here.set_ylim(min(low), max(high))
            there.set_ylim(min(low), max(high))
    figure.savefig(path)
    return caption


def box(axes, place: float, quartiles, whiskers, color: str) -> None:
    """One box from (median, first, third quartile), its whiskers to (least, greatest)."""
    median, q1, q3 = quartiles
    drawn = axes.bxp(
        [dict(med=median, q1=q1, q3=q3, whislo=whiskers[0], whishi=whiskers[1])],
        showcaps=whiskers != (q1, q3),
        positions=[place],
        widths=0.5,
        showfliers=False,
        patch_artist=True,
        medianprops=dict(color="black", linewidth=1.6),
    )
    drawn["boxes"][0].set(facecolor=color, alpha=0.55)


def lines(result: dict, title: str, note: str, path: Path) -> str:
    """Accuracy over the second axis, a line a value of the first (paper, figure 5a).

    Args:
        result: of a sweep of two axes, the second one's values in rising order; a cell's paper is
            (value,).
        title: of the picture. note: a sentence for the caption, or "".
        path: of the PNG.
    """
    cells = result["cells"]
    first, second = cells[0]["axes"]
    groups = list(dict.fromkeys(cell["axes"][first] for cell in cells))
    sides = sorted({cell["axes"][second] for cell in cells})
    caption = (
        f"Test accuracy, mean over {counted(len(result['seeds']), 'seed')}, the band one standard deviation "
        "up and down, where one fixed random permutation of square cells scrambles every image; the largest "
        "cell is the whole image, as it was. Right: the paper's values."
        + ("" if result["scale"] == "paper" else f" {OTHER_SCALE}")
        + (f" {note}" if note else "")
    )
    figure, add_axes = page(9.6, 3.6, title, caption)
    here, there = add_axes(0.75, 0.6, 3.9, 2.7), add_axes(5.3, 0.6, 3.9, 2.7)
    for number, group in enumerate(groups):
        own = sorted(
            (cell for cell in cells if cell["axes"][first] == group),
            key=lambda cell: cell["axes"][second],
        )
        x = [cell["axes"][second] for cell in own]
        mean = 100 * np.array([cell["accuracy"]["mean"] for cell in own])
        std = 100 * np.array([cell["accuracy"]["std"] or 0.0 for cell in own])
        style = dict(color=COLORS[number], marker=MARKERS[number], markersize=5, label=group)
        here.plot(x, mean, **style)
        here.fill_between(x, mean - std, mean + std, color=COLORS[number], alpha=0.2, linewidth=0)
        known = [cell for cell in own if cell["paper"]]
        there.plot(
            [c["axes"][second] for c in known],
            [c["paper"][0] for c in known],
            **style,
            linestyle="--",
        )
    here.set_title("here", size=10)
    there.set_title("paper (CIFAR-100, 200 epochs)", size=10)
    for axes in (here, there):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sides, [str(side) for side in sides])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{second} (pixels)")
        axes.set_ylabel("test accuracy (%)")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    here.legend(frameon=False)
    figure.savefig(path)
    return caption


def points(result: dict, title: str, note: str, path: Path) -> str:
    """Mean, standard deviation and every seed of each cell, the best on top, with its time.

    Args:
        result: of a sweep of one axis.
        title: of the picture. note: a sentence for the caption, or "".
        path: of the PNG.
    """
    cells = sorted(result["cells"], key=lambda cell: cell["accuracy"]["mean"])
    (axis,) = cells[0]["axes"]
    caption = (
        f"Test accuracy of {counted(len(result['seeds']), 'seed')}: a dot a seed, the bar mean and one "
        "standard deviation up and down. Right: seconds of training a run, mean over the seeds."
        + ("" if result["scale"] == "paper" else " A short training on few images.")
        + (f" {note}" if note else "")
    )
    names = [cell["axes"][axis] for cell in cells]
    left = 0.3 + 0.07 * max(
        map(len, names)
    )  # inches; a letter of size 9 is at most as wide on average
    figure, add_axes = page(left + 5.8, 0.42 * len(cells) + 0.8, title, caption)
    axes = add_axes(left, 0.55, 4.7, 0.42 * len(cells))
    for place, cell in enumerate(cells):
        accuracy = cell["accuracy"]
        axes.errorbar(
            100 * accuracy["mean"],
            place,
            xerr=100 * (accuracy["std"] or 0.0),
            fmt="|",
            markersize=13,
            capsize=4,
            color=COLORS[0],
            linewidth=2,
        )
        values = 100 * np.array(accuracy["per_seed"])
        axes.plot(values, np.full(len(values), place), "o", color="black", markersize=3.5)
        seconds = f"{cell['seconds']['mean']:.0f} s"
        axes.text(1.03, place, seconds, transform=axes.get_yaxis_transform(), va="center", size=9)
    axes.set_yticks(range(len(cells)), names, size=9)
    axes.set_ylim(-0.6, len(cells) - 0.4)
    axes.set_xlabel("test accuracy (%)")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    return caption


def maps(
    table: list[dict],
    values: list[np.ndarray],
    grid: tuple[int, int],
    title: str,
    note: str,
    path: Path,
) -> str:
    """Maps before and after the inverse permutation (paper, figure 8), a column each.

    Args:
        table: a dict a map: axes {model, images}, map (as found or inverse applied), and nearness and
            nearness_chance as `seeds.spread` gives them.
        values: the map (N, N) of the first seed for each of these.
        grid: (rows, cols), N = rows*cols.
        title: of the picture. note: a sentence for the caption, or "".
        path: of the PNG.
    """
    models = list(dict.fromkeys(line["axes"]["model"] for line in table))
    columns = list(dict.fromkeys((line["axes"]["images"], line["map"]) for line in table))
    rows, cols = grid
    place = (rows // 2) * cols + cols // 2  # a patch in the middle
    seeds = table[0]["nearness"]["n"]
    verdicts = [
        f"{line['axes']['model']}, {line['axes']['images']}, {line['map']} {beyond_chance(line)}"
        for line in table
    ]
    caption = (
        f"Near patches are related beyond chance in so many of {counted(seeds, 'seed')}: "
        f"{'; '.join(verdicts)}. Upper row of each model: how one patch (dot) relates to all, as in the "
        "paper's figure 8, where permuted images leave noise that the inverse permutation turns into a "
        "smooth blob. Lower row: the mean over all patches by offset from the patch (dot). Vanilla: cosine "
        "similarity of the position encodings; positional: attention scores less the row's mean, "
        "averaged over heads and layers. Seed 0 is shown; above each pair the correlation with "
        "nearness, mean and standard deviation over the seeds, and in brackets the largest of 99 random "
        "orders of the patches." + (f" {note}" if note else "")
    )
    side, gap = 1.7, 0.5
    width, height = 1.3 + len(columns) * (side + gap), len(models) * (2 * side + 1.05)
    figure, add_axes = page(max(width, 7.6), height + 0.1, title, caption)
    start = max(7.6 - width, 0) / 2 + 0.9
    for line, matrix in zip(table, values, strict=True):
        column = columns.index((line["axes"]["images"], line["map"]))
        x = start + column * (side + gap)
        y = height - (models.index(line["axes"]["model"]) + 1) * (2 * side + 1.05)
        tile = matrix[place].reshape(grid)
        offsets = mean_by_offset(matrix, grid)  # (h,w)
        for bottom, picture, dot in (
            (y + side + 0.3, tile, divmod(place, cols)),
            (y + 0.1, offsets, [length // 2 for length in offsets.shape]),
        ):
            axes = add_axes(x, bottom, side, side)
            others = np.ones(picture.shape, bool)
            others[tuple(dot)] = False  # a patch's value of itself would bleach the others
            limit = np.abs(picture[others]).max() or 1.0
            axes.imshow(picture, cmap=SIGNED, vmin=-limit, vmax=limit)
            axes.plot(*reversed(tuple(dot)), "o", color="black", markersize=4)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel(f"colours to \N{PLUS-MINUS SIGN}{limit:.2g}", size=7, labelpad=2)
            if column == 0:
                axes.set_ylabel("by offset" if bottom == y + 0.1 else "one patch", size=9)
            if picture is tile:
                near, chance = line["nearness"], line["nearness_chance"]["mean"]
                spread = (
                    f" \N{PLUS-MINUS SIGN} {near['std']:.2f}" if near["std"] is not None else ""
                )
                axes.set_title(
                    f"{line['axes']['model']}, {line['axes']['images']},\n{line['map']}\n"
                    f"r = {near['mean']:+.2f}{spread} [{chance:.2f}]",
                    size=8,
                )
    figure.savefig(path)
    return caption


def beyond_chance(line: dict) -> int:
    """In how many seeds the map's correlation with nearness exceeds that of every random order."""
    pairs = zip(line["nearness"]["per_seed"], line["nearness_chance"]["per_seed"], strict=True)
    return sum(r > chance for r, chance in pairs)

"""Pictures of theory runs: arrays in, one PNG file each; every function returns its caption."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from posvit_tf.analysis.plots import SIGNED, page
from posvit_tf.text import counted

# Okabe and Ito's colours, which stay apart for colour-blind readers, each with a line style.
STYLES = {
    "frozen": ("#0072B2", "-", "o", "A frozen, v learned"),
    "oracle": ("#009E73", "--", "s", "A of the true sets, v learned"),
    "scratch": ("#D55E00", "-", "^", "from scratch"),
    "uniform": ("#CC79A7", "-", "D", "uniform attention"),
    "logistic": ("#E69F00", "--", "v", "logistic regression"),
    "untrained": ("#999999", ":", "x", "A frozen, v untrained"),
}
BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"


def off_diagonal(A: np.ndarray) -> np.ndarray:
    """A without its fixed diagonal, which would drown the rest."""
    return np.where(np.eye(len(A), dtype=bool), np.nan, A)


def by_set(A: np.ndarray, partition: np.ndarray) -> np.ndarray:
    """Rows and columns of A in the order of the sets."""
    order = np.argsort(partition, kind="stable")
    return A[np.ix_(order, order)]


def draw_values(axes: Axes, values: np.ndarray):
    """Shows (R, C), rows and columns counted from 1, colours symmetric around 0."""
    rows, cols = values.shape
    limit = max(np.nanmax(np.abs(values)), 1e-12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    return axes.imshow(
        values,
        cmap=SIGNED,
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
        extent=(0.5, cols + 0.5, rows + 0.5, 0.5),
    )


def draw_matrix(axes: Axes, A: np.ndarray, title: str, name: str):
    """Shows A off the diagonal."""
    shown = draw_values(axes, off_diagonal(A))
    axes.set_title(title, size=10)
    axes.set_xlabel(f"patch j{name}")
    axes.set_ylabel(f"patch i{name}")
    return shown


def found_and_sorted(A: np.ndarray, partition: np.ndarray, path: Path) -> str:
    """A (D, D) in the order of the patches, and in that of the true sets (D,)."""
    caption = (
        "The same matrix twice, its fixed diagonal left white. Where the association is learned, "
        "sorting by the hidden sets gathers the large values in blocks on the diagonal. The sets "
        "were used for this sorting alone."
    )
    figure, add_axes = page(9.6, 4.5, "Attention scores A", caption)
    draw_matrix(add_axes(0.7, 0.55, 3.6, 3.6), A, "as found", "")
    shown = draw_matrix(
        add_axes(5.0, 0.55, 3.6, 3.6), by_set(A, partition), "sorted by set", ", by set"
    )
    figure.colorbar(shown, cax=add_axes(8.75, 0.55, 0.15, 3.6)).set_label("$A_{ij}$")
    figure.savefig(path)
    return caption


def position_row(A: np.ndarray, partition: np.ndarray, grid: tuple[int, int], path: Path) -> str:
    """The row of A of one position over the grid; frames mark its true set."""
    rows, cols = grid
    row, col = rows // 2, cols // 2
    i = row * cols + col
    caption = (
        f"How the patch at row {row + 1}, column {col + 1} (dot) scores the others: row {i + 1} of A "
        f"laid over the {rows} x {cols} grid of patches. Its own score is fixed and left white; frames "
        "mark the true set it belongs to."
    )
    scale = 3.8 / max(rows, cols)
    width, height = cols * scale, rows * scale
    figure, add_axes = page(
        max(width + 2.4, 6.0), height + 0.7, "Where one position looks", caption
    )
    axes = add_axes(0.8, 0.55, width, height)
    shown = draw_values(axes, off_diagonal(A)[i].reshape(grid))
    for j in np.flatnonzero(partition == partition[i]):
        corner = (j % cols + 0.53, j // cols + 0.53)
        axes.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor="black", linewidth=1.8))
    axes.plot(col + 1, row + 1, "o", color="black", markersize=5)
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    bar = figure.colorbar(shown, cax=add_axes(width + 1.0, 0.55, 0.15, height))
    bar.set_label(f"$A_{{{i + 1},j}}$")
    figure.savefig(path)
    return caption


def draw_events(axes: Axes, events: dict[str, int | None]) -> None:
    """Dotted lines at the events that came, their names at the top."""
    for name, step in events.items():
        if step is not None:
            axes.axvline(step, color=GREY, linestyle=":", linewidth=1)
            axes.annotate(
                f"$t_{name[1]}$",
                (step, 1.01),
                xycoords=("data", "axes fraction"),
                size=9,
                ha="center",
                va="bottom",
                color=GREY,
            )


def finish(axes: Axes, ylabel: str) -> None:
    """Axis names, a light grid, the legend if any line has a name."""
    axes.set_xlabel("step")
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)


def draw_error(axes: Axes, trace: list[dict], linear_error: float, set_aware_error: float) -> None:
    """Test error on a logarithmic axis with its two bars."""
    steps = [record["step"] for record in trace]
    # An error of 0 has no place on a logarithmic axis: it is drawn at its foot.
    error = np.maximum([record["test_error"] for record in trace], 1e-4)
    axes.semilogy(steps, error, color=BLUE, label="model")
    axes.axhline(linear_error, color=RED, linestyle="--", linewidth=1, label="best linear rule")
    if set_aware_error >= 1e-4:
        axes.axhline(
            set_aware_error,
            color=GREEN,
            linestyle="-.",
            linewidth=1,
            label="rule that knows the sets",
        )
    axes.set_ylim(8e-5, 1)


def traces(
    trace: list[dict],
    events: dict[str, int | None],
    linear_error: float,
    set_aware_error: float,
    path: Path,
) -> str:
    """alpha, gamma and rho, the risk and the test error against steps, with the three events.

    Args:
        trace: records with step, alpha, gamma, rho, risk and test_error.
        events: step of t1, t2, t3, or None.
        linear_error, set_aware_error: of the two rules to compare with.
        path: of the PNG.
    """
    told = ", ".join(f"{name} {'never' if t is None else t}" for name, t in events.items())
    caption = (
        f"One seed. Events: {told}. t1: the test error is within 10% of the best linear rule's; t2: "
        "gamma - rho is past half its final value; t3: the risk is a tenth of that at t2. gamma and "
        "rho are the mean scores inside and across the sets. Errors below 0.0001 are drawn there."
    )
    figure, add_axes = page(9.6, 6.3, "The course of a run", caption)
    steps = [record["step"] for record in trace]

    def column(name):
        return [record[name] for record in trace]

    panels = [add_axes(x, y, 3.9, 2.35) for y in (3.7, 0.55) for x in (0.75, 5.5)]
    panels[0].plot(steps, column("alpha"), color=BLUE)
    finish(panels[0], r"$\alpha = \langle v, w^* \rangle$")
    panels[1].plot(steps, column("gamma"), color=BLUE, label=r"$\gamma$, inside a set")
    panels[1].plot(steps, column("rho"), color=RED, linestyle="--", label=r"$\rho$, across sets")
    finish(panels[1], "mean score")
    panels[2].semilogy(steps, column("risk"), color=BLUE)
    finish(panels[2], "risk")
    draw_error(panels[3], trace, linear_error, set_aware_error)
    finish(panels[3], "test error")
    for axes in panels:
        draw_events(axes, events)
    figure.savefig(path)
    return caption


def transfer_curves(sizes: tuple[int, ...], errors: dict[str, np.ndarray], path: Path) -> str:
    """Test error against the number of samples: medians, and bands from least to greatest.

    Args:
        sizes: numbers of samples n.
        errors: method -> (seeds, sizes).
        path: of the PNG.
    """
    seeds = len(next(iter(errors.values())))
    caption = (
        "Test error on a new feature whose sets are those on which A was learned: median over "
        f"{counted(seeds, 'seed')}, bands from the least to the greatest. Errors below 0.0001 "
        "are drawn there."
    )
    figure, add_axes = page(9.6, 4.2, "Transfer of the learned attention", caption)
    axes = add_axes(0.8, 0.55, 5.9, 3.4)
    for name, (color, line, marker, label) in STYLES.items():
        values = np.maximum(errors[name], 1e-4)
        median = np.median(values, axis=0)
        axes.loglog(sizes, median, color=color, linestyle=line, marker=marker, ms=5, label=label)
        axes.fill_between(sizes, values.min(axis=0), values.max(axis=0), color=color, alpha=0.13)
    finish(axes, "test error")
    axes.set_xlabel("number of samples n")
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.savefig(path)
    return caption


def figure2(
    trace: list[dict], A: np.ndarray, partition: np.ndarray, chance: float, path: Path
) -> str:
    """Test error on Gaussian patches and the final A sorted by set, beside the paper's figure 2.

    Args:
        trace: records with step, test_error and overlap.
        A: (D, D).
        partition: (D,).
        chance: overlap of a random A.
        path: of the PNG.
    """
    last = trace[-1]
    caption = (
        f"One seed: test error {last['test_error']:.3f}, overlap of A with the sets "
        f"{last['overlap']:.2f} (chance {chance:.2f}). "
        "The paper's figure 2 ends at 6 to 7%, grey, with scores <p_i, p_j> that look random; there the "
        "label is the cubic one."
    )
    figure, add_axes = page(9.9, 4.2, "Gaussian patches", caption)
    axes = add_axes(0.75, 0.55, 4.0, 3.2)
    axes.axhspan(0.06, 0.07, color=GREY, alpha=0.35, label="the paper's end, 6 to 7%")
    axes.plot(
        [record["step"] for record in trace],
        [record["test_error"] for record in trace],
        color=BLUE,
        label="model",
    )
    axes.set_ylim(bottom=0)
    finish(axes, "test error")
    shown = draw_matrix(add_axes(5.5, 0.55, 3.2, 3.2), by_set(A, partition), "A", ", by set")
    figure.colorbar(shown, cax=add_axes(8.8, 0.55, 0.15, 3.2)).set_label("$A_{ij}$")
    figure.savefig(path)
    return caption


def figure4(
    trace: list[dict],
    A: np.ndarray,
    partition: np.ndarray,
    linear_error: float,
    set_aware_error: float,
    path: Path,
) -> str:
    """Test error, cos(v, w*) and A sorted by set, beside the numbers of the paper's figure 4."""
    caption = (
        "One seed. Grey: what the paper's figure 4 shows, read off it to about 0.1%: the error from "
        "35% by a plateau at 7.5% to 2.4%, the cosine from 0.05 to 0.99, A block-diagonal at the end."
    )
    figure, add_axes = page(12.6, 4.2, "D = 10 patches in 5 sets of 2", caption)
    steps = [record["step"] for record in trace]
    axes = add_axes(0.75, 0.55, 3.3, 3.2)
    draw_error(axes, trace, linear_error, set_aware_error)
    for level in (0.35, 0.075, 0.024):
        axes.axhline(level, color=GREY, linewidth=3, alpha=0.35)
    axes.set_ylim(1e-2, 1)
    finish(axes, "test error")
    axes = add_axes(4.9, 0.55, 3.0, 3.2)
    axes.plot(steps, [record["cosine"] for record in trace], color=BLUE)
    for level in (0.05, 0.99):
        axes.axhline(level, color=GREY, linewidth=3, alpha=0.35)
    finish(axes, r"$\cos(v, w^*)$")
    shown = draw_matrix(add_axes(8.5, 0.55, 3.2, 3.2), by_set(A, partition), "A", ", by set")
    figure.colorbar(shown, cax=add_axes(11.8, 0.55, 0.15, 3.2)).set_label("$A_{ij}$")
    figure.savefig(path)
    return caption

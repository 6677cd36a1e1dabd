"""Where the runs of a sweep look, before and after the inverse of their images' permutation."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from posvit_tf import trained
from posvit_tf.analysis import locality, similarity
from posvit_tf.analysis.figures import attention_maps, float32
from posvit_tf.analysis.seeds import spread
from posvit_tf.data import permute
from posvit_tf.tasks.sweep_runs import Run

FOUND, INVERTED = "as found", "inverse applied"


class Map(NamedTuple):
    """What a trained ViT holds of its N patches' places, over a grid (rows, cols)."""

    values: np.ndarray  # (N,N), to look at
    weights: np.ndarray  # (N,N), not below 0, for `locality`
    grid: tuple[int, int]


def maps(workdir: Path) -> dict[str, Map]:
    """The map of a run, as found and, if its images were permuted, over the places before.

    Of positional attention the scores s_ij less their row's mean, averaged over heads and layers, with
    weights exp(s_ij); of content attention cos(p_i, p_j) of the position table, with weights
    1 + cos(p_i, p_j).

    Args:
        workdir: of a finished run of a ViT with a class token.
    """
    model, _, config = trained.load(workdir)
    grid = model.get_layer("patches").grid
    if model.get_layer("block_1").attention.source == "positions":
        black = np.zeros((1, *model.input.shape[1:]), "uint8")
        attention = np.concatenate(attention_maps(model, black))[:, 1:, 1:]  # (L*H,N,N)
        values = similarity.centred_scores(attention).mean(axis=0)  # (N,N)
        weights = np.exp(values)  # (N,N)
    else:
        values = similarity.position_similarity(float32(model.get_layer("positions").table)[1:])
        weights = 1 + values  # (N,N)
    found = {FOUND: Map(values, weights, grid)}
    if config.data.cell_size:
        cell = config.data.cell_size // config.model.patch_size
        order = permute.cell_order(grid, cell, config.data.permutation_seed)  # (N,)
        back = (permute.unpermute_map(array, order) for array in (values, weights))
        found[INVERTED] = Map(*back, grid)
    return found


def measure(runs: list[Run]) -> tuple[list[dict], list[Map]]:
    """Locality of every cell's maps over its seeds, and the maps of the first seed.

    Returns:
        [{axes, map: as found or inverse applied, nearness: the correlation with nearness,
        nearness_chance: its largest value with shuffled patches, distance: the mean distance in
        patches, locality: the score, locality_chance: its largest with shuffled patches}], each number
        as `spread` gives it, and a map of the first seed for each.
    """
    found: dict[tuple, list[Map]] = {}
    for run in runs:
        for kind, one in maps(run.workdir).items():
            found.setdefault((tuple(run.cell["axes"].items()), kind), []).append(one)
    table = []
    for (axes, kind), own in found.items():
        near = [similarity.distance_correlation(m.values, m.grid) for m in own]
        scores = [locality.locality_score(m.weights, m.grid) for m in own]
        shuffled = [locality.chance(m.weights, m.grid, np.random.default_rng(0)).max() for m in own]
        table.append(
            {
                "axes": dict(axes),
                "map": kind,
                "nearness": spread([r for r, _ in near]),
                "nearness_chance": spread([chance for _, chance in near]),
                "distance": spread([locality.mean_distance(m.weights, m.grid) for m in own]),
                "locality": spread(scores),
                "locality_chance": spread(shuffled),
            }
        )
    return table, [own[0] for own in found.values()]

"""Patch association: do a position's largest scores name its set? (paper, section 2)

Ties are broken at random: in index order they would flatter sets of neighbours.
"""

import numpy as np

from posvit_tf.errors import UserError


def gram(encodings: np.ndarray) -> np.ndarray:
    """Scores <p_i, p_j> (D, D) of position encodings P (D, m)."""
    return encodings @ encodings.T


def hits(scores: np.ndarray, partition: np.ndarray, top: int, rng: np.random.Generator) -> float:
    """Mean over i of |Top(i) & set of i| / top, Top(i) the `top` largest scores of row i."""
    if np.isnan(scores).any():
        raise UserError("the scores hold NaN: association is defined for finite scores alone")
    order = np.lexsort((rng.random(scores.shape), -scores), axis=-1)[:, :top]  # (D,top)
    return float((partition[order] == partition[:, None]).mean())


def overlap(scores: np.ndarray, partition: np.ndarray, rng: np.random.Generator) -> float:
    """Mean over i of |Top_{C-1}(i), j != i, & S_l \\ {i}| / (C-1); association is exact at 1.

    Args:
        scores: (D, D), an attention matrix A or `gram(P)`.
        partition: (D,) the set of each patch.
        rng: breaks ties.
    """
    C = np.count_nonzero(partition == partition[0])
    others = scores.astype(float)
    np.fill_diagonal(others, -np.inf)
    return hits(others, partition, C - 1, rng)


def exact(scores: np.ndarray, partition: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether every position's C-1 largest scores, its own left out, are the rest of its set."""
    return overlap(scores, partition, rng) == 1


def overlap_with_self(scores: np.ndarray, partition: np.ndarray, rng: np.random.Generator) -> float:
    """The paper's form, j = i counted: mean over i of |Top_C(i) & S_l| / C."""
    return hits(scores, partition, np.count_nonzero(partition == partition[0]), rng)


def chance(D: int, C: int) -> float:
    """(C-1) / (D-1), the mean `overlap` of scores that know nothing."""
    return (C - 1) / (D - 1)


def tied_values(A: np.ndarray, partition: np.ndarray) -> tuple[float, float]:
    """gamma, the mean of A_ij inside the sets with i != j, and rho, the mean across sets."""
    inside = partition[:, None] == partition
    off_diagonal = ~np.eye(len(A), dtype=bool)
    return float(A[inside & off_diagonal].mean()), float(A[~inside].mean())

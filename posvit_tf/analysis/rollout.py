"""Attention followed through all layers: which tokens of the image may have reached which output."""

import numpy as np


def rollout(maps: np.ndarray) -> np.ndarray:
    """R = M_L ... M_1 with M_l = (A_l + I) / 2, A_l the mean over the heads of layer l.

    I stands for the residual connection, which hands each token on beside what attention adds. R_ij
    is the share of output token i that comes from input token j if both count alike and the MLPs are
    left out: what attention lets through, not what decided.

    Args:
        maps: A (L, ..., H, N, N), first layer first, class token included; rows sum to 1.

    Returns:
        (..., N, N), rows sum to 1.

    Source: Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
    """
    mixed = (maps.mean(axis=-3) + np.eye(maps.shape[-1])) / 2  # (L,...,N,N)
    product = mixed[0]
    for layer in mixed[1:]:
        product = layer @ product
    return product

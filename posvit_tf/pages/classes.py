"""How a classifier did on each class, what it took for what, and where it was surest and wrong."""

import os
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.metrics import confusion_matrix

from posvit_tf.data.splits import Split
from posvit_tf.pages import html

CELLS = 25  # classes up to which the confusion matrix is a table with figures
PAIRS = 15
MISTAKES = 24
SHADES = matplotlib.colormaps["Blues"]


def shade(share: float) -> str:
    """The background of a cell, as a CSS colour, and the colour of letters that can be read on it."""
    color = matplotlib.colors.to_hex(SHADES(0.85 * share**0.5)) if share else "#fff"
    return f"background:{color};color:{'#fff' if share > 0.4 else '#222'}"


def per_class(confusion: np.ndarray, names: Sequence[str]) -> list[dict]:
    """A row a class, the least accurate first: {index, name, examples, accuracy, taken_for}.

    Args:
        confusion: (K, K), how many examples of class i were taken for class j.
        names: of the K classes.

    Returns:
        accuracy is None without examples; taken_for is (name, how many) of the commonest mistake,
        or None.
    """
    rows = []
    for index, counts in enumerate(confusion):
        examples, correct = int(counts.sum()), int(counts[index])
        wrong = np.where(np.arange(len(counts)) == index, 0, counts)
        rows.append(
            {
                "index": index,
                "name": names[index],
                "examples": examples,
                "accuracy": correct / examples if examples else None,
                "taken_for": (names[wrong.argmax()], int(wrong.max())) if wrong.any() else None,
            }
        )
    return sorted(rows, key=lambda row: (row["accuracy"] is None, row["accuracy"]))


def confused_pairs(confusion: np.ndarray, names: Sequence[str]) -> list[dict]:
    """The pairs of classes most often mistaken, at most PAIRS: {true, predicted, count, share}."""
    wrong = confusion * ~np.eye(len(confusion), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]
    return [
        {
            "true": names[i],
            "predicted": names[j],
            "count": int(wrong[i, j]),
            "share": wrong[i, j] / confusion[i].sum(),
        }
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[i, j]
    ]


def confusion_cells(confusion: np.ndarray) -> list[list[tuple[int, str]]]:
    """(count, CSS style) a cell, darker for a larger share of its row."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    return [
        [(int(count), shade(share)) for count, share in zip(*row, strict=True)]
        for row in zip(confusion, shares, strict=True)
    ]


def confusion_picture(confusion: np.ndarray) -> str:
    """The same as a picture, a pixel a cell."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    return html.png(SHADES(shares**0.5, bytes=True)[..., :3])


def file_name(path: str) -> str:
    """Folder and file alone, so that a page does not tell where it was made; names need not be text."""
    return os.fsencode(os.path.join(*Path(path).parts[-2:])).decode(errors="backslashreplace")


def worst(labels: np.ndarray, predicted: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Which examples were wrong, the surest first, at most MISTAKES.

    Args:
        labels, predicted: (n,). probability: (n,), of the class that was predicted.
    """
    wrong = np.flatnonzero(predicted != labels)
    return wrong[np.argsort(-probability[wrong], kind="stable")][:MISTAKES]


def section(test: Split, logits: np.ndarray, names: Sequence[str]) -> dict:
    """What the template shows of the classes.

    Args:
        test: the split, n examples.
        logits: (n, K), in the order of the split.
        names: of the K classes.
    """
    predicted = logits.argmax(axis=1)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))  # (n,K)
    probability = 1 / shifted.sum(axis=1)  # of the class predicted, whose shifted logit is 0
    confusion = confusion_matrix(test.labels, predicted, labels=range(len(names)))
    few = len(names) <= CELLS
    chosen = worst(test.labels, predicted, probability)
    mistakes = [
        {
            "picture": html.photo(image),
            "name": f"image {i + 1} of {len(predicted)}"
            if test.files is None
            else file_name(test.files[i]),
            "true": names[test.labels[i]],
            "predicted": names[predicted[i]],
            "probability": float(probability[i]),
        }
        for i, image in zip(chosen, test.images[chosen], strict=True)
    ]
    return {
        "names": names,
        "per_class": per_class(confusion, names),
        "cells": confusion_cells(confusion) if few else None,
        "picture": None if few else confusion_picture(confusion),
        "pairs": confused_pairs(confusion, names),
        "mistakes": mistakes,
        "wrong": int((predicted != test.labels).sum()),
        "examples": len(predicted),
        "accuracy": float((predicted == test.labels).mean()),
    }

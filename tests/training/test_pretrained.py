"""What a run takes over from another one's weights, on untrained models of a few patches."""

import re

import numpy as np
import pytest

from posvit_tf.data.splits import Source, Split
from posvit_tf.errors import UserError
from posvit_tf.layers.off_diagonal_attention import fixed_diagonal
from posvit_tf.layers.positions import resampling, sincos_table
from posvit_tf.models.build import build
from posvit_tf.training import checkpoint, pretrained

FACTS = {"image_shape": (8, 8, 1), "class_names": ("a", "b"), "mean": (90.0,), "std": (60.0,)}
IMAGES = Split(np.zeros((1, 8, 8, 1), "uint8"), np.zeros(1, "int32"))
SOURCE = Source("made up", IMAGES, None, IMAGES, ("a", "b"), (1.0,), (1.0,))
WIDE = FACTS | {"image_shape": (6, 10, 1)}  # 3x5 patches in place of 4x4


@pytest.fixture
def started(tiny, tmp_path):
    """started(fields there, facts there, fields here, facts here) -> weights there, here, and the table.

    Weights are a dictionary from a path without numbers to the arrays of that path.
    """

    def by_path(arrays):
        paths = {}
        for name, array in arrays.items():
            paths.setdefault(name.split("/", 2)[2], []).append(array)
        return paths

    def start(there, facts_there, here, facts_here):
        configs = [tiny({"model.depth": 2, **fields}) for fields in (there, here)]
        rng = np.random.default_rng(0)
        source = build(configs[0], facts_there)
        source.set_weights([rng.normal(size=w.shape) for w in source.get_weights()])
        arrays = checkpoint.values(checkpoint.named(source.weights, "weights"))
        record = {"model": configs[0].model.to_dict(), "facts": facts_there}
        checkpoint.save(tmp_path / "w.npz", arrays, record)
        model = build(configs[1], facts_here)
        _, loaded = pretrained.find(str(tmp_path / "w.npz"), tmp_path, SOURCE)
        table = pretrained.transplant(loaded, model, configs[1].model, facts_here)
        return (
            by_path(arrays),
            by_path(checkpoint.values(checkpoint.named(model.weights, "weights"))),
            table,
        )

    return start


def assert_equal_but(there, here, *paths):
    assert there.keys() == here.keys() and {*paths} <= there.keys()
    for path in there.keys() - {*paths}:
        np.testing.assert_array_equal(there[path], here[path], err_msg=path)


def test_positions_are_resampled_and_the_rest_is_kept(started):
    there, here, table = started({}, FACTS, {"model.position_std": 0.5}, WIDE)
    assert_equal_but(there, here, "positions/table")
    matrix = resampling((4, 4), (3, 5), class_token=True)
    (old,), (new,) = there["positions/table"], here["positions/table"]
    np.testing.assert_allclose(new, matrix @ old, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(new[0], old[0])  # the class token's
    assert re.search(r"resampled +1 +128  positions/table 4x4 -> 3x5\n", table)
    assert re.search(r"new +0 +0\n", table) and re.search(r"left out +0 +0\n", table)


def test_as_many_patches_on_another_grid_are_resampled_too(started):
    facts = FACTS | {"image_shape": (4, 16, 1)}
    there, here, _ = started({}, FACTS, {}, facts)
    matrix = resampling((4, 4), (2, 8), class_token=True)
    np.testing.assert_allclose(
        here["positions/table"][0], matrix @ there["positions/table"][0], rtol=1e-5, atol=1e-6
    )


def test_free_matrices_are_resampled_in_both_grids_with_their_diagonal(started):
    free = {"model.attention": "free", "model.pool": "mean"}
    there, here, table = started(free, FACTS, free, WIDE)
    path = "block/attention/off_diagonal"
    assert_equal_but(there, here, "positions/table", path)
    matrix = resampling((4, 4), (3, 5), class_token=False)
    assert len(here[path]) == 2
    for old, new in zip(there[path], here[path], strict=True):
        for head in range(2):
            scores = np.asarray(fixed_diagonal(old[head], 1.0))
            np.testing.assert_allclose(new[head], matrix @ scores @ matrix.T, rtol=1e-5, atol=1e-6)
    assert "block/attention/off_diagonal 4x4 -> 3x5" in table


def test_a_sincos_table_is_computed_for_its_grid(started):
    _, here, table = started({}, FACTS, {"model.positions": "sincos"}, WIDE)
    np.testing.assert_array_equal(here["positions/table"][0], sincos_table((3, 5), 8, True))
    assert re.search(r"new +1 +128  positions/table \(sin-cos\)", table)


@pytest.mark.parametrize("names", [("a", "b", "c"), ("a", "d"), ("b", "a")])
def test_the_head_is_new_unless_the_classes_are_the_same(started, names):
    there, here, table = started({}, FACTS, {}, FACTS | {"class_names": names})
    assert_equal_but(there, here, "logits/kernel", "logits/bias")
    assert np.shape(here["logits/kernel"][0]) == (8, len(names))
    np.testing.assert_array_equal(here["logits/bias"][0], 0.0)
    classes = f"logits of {len(names)} classes ({', '.join(names)})"
    assert re.search(rf"new +2 +{9 * len(names)}  {re.escape(classes)}\n", table)
    assert re.search(r"left out +2 +18  logits of 2 classes \(a, b\)\n", table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.width": 12}, r"model.width=12 \(there 8\) does not fit weights/0000/patches/"),
        ({"model.mlp_width": 9}, r"model.mlp_width=9 .*block/mlp/hidden/kernel"),
        ({"model.depth": 1}, r"model.depth=1 \(there 2\) .*block/.* and \d+ more"),
        ({"model.heads": 4}, r"model.heads=4 \(there 2\) .*block/attention/"),
        ({"model.attention": "content"}, r".*model.attention=content .*block/attention/"),
        ({"model.attention": "free"}, r".*model.attention=free .*block/attention/"),
        ({"model.patch_size": 4}, r"model.patch_size=4 .*patches/projection/kernel"),
        ({"model.pool": "mean"}, r"model.pool=mean .*class_token/token"),
        ({"model.add_positions": True}, r"model.add_positions=True .*positions/table"),
    ],
)
def test_what_cannot_be_mended_is_named(started, changes, message):
    with pytest.raises(UserError, match=rf"w\.npz is of another model: {message}"):
        started({}, FACTS, changes, FACTS)


def test_a_file_that_is_no_start_is_named(tiny, tmp_path):
    file = tmp_path / "update_000000010.npz"
    record = {"model": {}, "facts": FACTS | {"image_shape": (8, 8, 3)}}
    checkpoint.save(file, {"model/0000/a": np.zeros(1)}, record)
    with pytest.raises(UserError, match=f"{file} is not the best.npz"):
        pretrained.find(str(file), tmp_path / "new", SOURCE)
    checkpoint.save(file, {"weights/0000/a": np.zeros(1)}, record)
    with pytest.raises(UserError, match=r"images of 3 channels, and these have 1"):
        pretrained.find(str(file), tmp_path / "new", SOURCE)

"""Content models as the start of content-free ones, on real digits."""

import numpy as np
import pytest

from posvit_tf import trained
from posvit_tf.analysis.figures import attention_maps
from posvit_tf.data import sources
from posvit_tf.errors import UserError
from posvit_tf.tasks import classify, mean_maps
from posvit_tf.training import run_files

WIDE = {"model.depth": 2, "model.width": 36, "model.heads": 2}  # heads of 18 numbers, 17 tokens


def run(config, workdir):
    with run_files.claimed(workdir, config):
        return classify.run(config, workdir)


@pytest.fixture(scope="module")
def content(tiny, tmp_path_factory):
    """A content run, and the mean maps of its model."""
    workdir = tmp_path_factory.mktemp("content")
    run(tiny({**WIDE, "model.attention": "content"}), workdir)
    model, _, config = trained.load(workdir)
    images = sources.load(config.data).train.images
    assert len(images) < mean_maps.IMAGES  # so all are looked at
    return workdir, model, [a.mean(axis=0) for a in attention_maps(model, images)]


@pytest.mark.parametrize("kind", ["free", "positional"])
def test_maps_start_as_the_mean_maps_and_all_else_is_copied(content, kind, tiny, tmp_path, capsys):
    workdir, model, maps = content
    changes = {**WIDE, "model.attention": kind, "model.key_weights": "channel", "train.epochs": 0}
    run(tiny({**changes, "init_from": str(workdir)}), tmp_path)
    told = capsys.readouterr().out
    assert "block_2: total variation from the mean map 0.000, at most 0.000" in told
    converted = trained.load(tmp_path).model
    black = np.zeros((1, 8, 8, 1), "uint8")
    for found, expected in zip(attention_maps(converted, black), maps, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    for name in ("class_token", "positions", "patches", "norm", "logits"):
        for one, other in zip(
            converted.get_layer(name).weights, model.get_layer(name).weights, strict=True
        ):
            np.testing.assert_array_equal(one, other)
    block, there = (one.get_layer("block_1") for one in (converted, model))
    np.testing.assert_array_equal(block.attention.value.kernel, there.attention.value.kernel)
    np.testing.assert_array_equal(block.mlp.out.kernel, there.mlp.out.kernel)
    assert not np.any(block.attention.token_key.kernel)


def test_a_fit_of_lower_rank_is_the_nearest():
    rng = np.random.default_rng(0)
    logs = np.log(rng.dirichlet(np.ones(9), size=(2, 9)))
    positions = rng.normal(size=(9, 12))
    centred = logs - logs.mean(axis=-1, keepdims=True)
    errors = []
    for head in (2, 6, 11):
        query, key = (positions @ w for w in mean_maps.low_rank(logs, positions, head))  # (9,2*dh)
        query, key = (x.reshape(9, 2, head).swapaxes(0, 1) for x in (query, key))  # (2,9,dh)
        heads = query @ key.swapaxes(1, 2) / head**0.5
        errors.append(np.square(heads - centred).sum())
        values = np.linalg.svd(centred, compute_uv=False)
        assert errors[-1] == pytest.approx(np.square(values[:, head:]).sum(), abs=1e-9)
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.mlp_width": 9}, "no block_1/mlp/hidden/kernel of shape"),
        ({"model.depth": 1}, "has block_2/.*, for which this model has no place"),
        ({"data.image_size": "16"}, "is of other image size"),
    ],
)
def test_what_does_not_fit_is_named(content, changes, message, tiny, tmp_path):
    changes = {**WIDE, "model.attention": "free", "init_from": str(content[0]), **changes}
    with pytest.raises(UserError, match=message):
        run(tiny(changes), tmp_path)

import numpy as np
import pytest

from posvit_tf.analysis.figures import attention_maps, map_movement, write_all
from posvit_tf.models.vit import vit

LINES = [dict(split="train", epoch=1, step=1, loss=2.3, accuracy=0.1, examples=8)]
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 8, 16, 1)).astype("uint8")


def model(attention, positions, pool="token", dtype="float32"):
    return vit(
        (8, 16, 1),
        10,
        (127.0,),
        (64.0,),
        attention=attention,
        positions=positions,
        position_std=1.0,
        add_positions=attention != "positional",
        patch_size=4,
        depth=2,
        heads=2,
        width=16,
        mlp_width=16,
        pool=pool,
        dropout=0.0,
        drop_path=0.0,
        dtype=dtype,
    )


@pytest.mark.parametrize(
    ("built", "images", "names"),
    [
        (
            ("positional", "learned"),
            None,
            "learning_curves similarity_map score_map attention_maps",
        ),
        (
            ("positional", "sincos", "mean", "mixed_bfloat16"),
            IMAGES,
            "learning_curves similarity_map score_map attention_maps",
        ),
        (
            ("free", "none", "token", "mixed_float16"),
            None,
            "learning_curves score_map attention_maps",
        ),
        (("content", "learned"), None, "learning_curves similarity_map"),
        (("content", "none"), IMAGES, "learning_curves attention_maps"),
    ],
)
def test_every_plot_that_applies(built, images, names, tmp_path):
    written = write_all(model(*built), LINES, tmp_path / "plots", images)
    assert [path.stem for path, _ in written] == names.split()
    assert {path for path, _ in written} == set((tmp_path / "plots").iterdir())
    maps = dict((path.stem, caption) for path, caption in written).get("attention_maps", "")
    assert ("mean over 3 images" in maps) == (built[0] == "content" and bool(maps))


@pytest.mark.parametrize("attention", ["positional", "content"])
def test_movement_is_told_by_layer_and_head(attention, tmp_path):
    built = model(attention, "learned")
    start = attention_maps(built, IMAGES)
    second = built.get_layer("block_2").attention
    second.query.kernel.assign(-second.query.kernel)
    movement = map_movement(start, attention_maps(built, IMAGES))
    assert movement.shape == (2, 2)
    np.testing.assert_array_equal(movement[0], 0)
    assert movement[1].min() > 0.01
    written = dict(write_all(built, LINES, tmp_path, movement=movement))
    assert "0.00, " in written[tmp_path / "map_movement.png"]

import numpy as np
import pytest

from posvit_tf.data import permute
from posvit_tf.tasks import classify, sweep_maps
from posvit_tf.tasks.sweep_runs import Run
from posvit_tf.training import run_files


@pytest.mark.parametrize("attention", ["positional", "content"])
def test_the_inverse_brings_maps_back_to_the_places_of_the_image(attention, tiny, tmp_path):
    config = tiny(
        {"model.attention": attention, "data.cell_size": 4, "train.epochs": 0, "model.width": 64}
    )
    with run_files.claimed(tmp_path, config):
        classify.run(config, tmp_path)
    run = Run({"axes": {"images": "permuted"}}, 0, config, (), tmp_path)
    table, (found, inverted) = sweep_maps.measure([run])
    order = permute.cell_order((4, 4), 2, 0)  # cells of 2 x 2 patches
    assert not np.array_equal(order, np.arange(16))
    np.testing.assert_array_equal(inverted.values[np.ix_(order, order)], found.values)
    assert [line["map"] for line in table] == ["as found", "inverse applied"]
    assert table[0]["nearness"]["mean"] != table[1]["nearness"]["mean"]
    # No training: places have no say yet.
    assert all(line["nearness"]["mean"] < line["nearness_chance"]["mean"] for line in table)


def test_no_permutation_has_one_map(tiny, tmp_path):
    config = tiny({"train.epochs": 0})
    with run_files.claimed(tmp_path, config):
        classify.run(config, tmp_path)
    assert list(sweep_maps.maps(tmp_path)) == ["as found"]

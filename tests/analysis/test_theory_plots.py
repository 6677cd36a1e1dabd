import numpy as np
from matplotlib.figure import Figure

from posvit_tf.analysis import theory_plots


def test_rows_and_columns_are_counted_from_one(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: drawn.append(figure))
    A = np.arange(32 * 32.0).reshape(32, 32)
    caption = theory_plots.position_row(A, np.arange(32) // 8, (4, 8), tmp_path / "position.png")
    assert "row 3, column 5 (dot)" in caption and "row 21 of A" in caption
    theory_plots.found_and_sorted(A, np.arange(32) // 8, tmp_path / "attention.png")
    row, found = drawn[0].axes[0], drawn[1].axes[0]
    assert row.lines[0].get_xydata().tolist() == [[5, 3]]
    assert row.images[0].get_extent() == [0.5, 8.5, 4.5, 0.5]
    frames = [patch.get_xy() for patch in row.patches]  # of the third set, all of row 3
    assert np.round(frames).tolist() == [[column, 3] for column in range(1, 9)]
    for axes in (row, found):
        shown = [tick for tick in axes.get_xticks() if 0 < tick < 33]
        assert all(tick == int(tick) for tick in shown)
    assert found.images[0].get_extent() == [0.5, 32.5, 32.5, 0.5]

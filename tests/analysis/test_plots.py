import matplotlib.image
import numpy as np
import pytest

from posvit_tf.analysis import plots


def line(split, epoch, step, accuracy):
    return dict(
        split=split, epoch=epoch, step=step, loss=1.0, accuracy=accuracy, examples=360, seconds=1.0
    )


def is_picture(path):
    pixels = matplotlib.image.imread(path)
    return min(pixels.shape[:2]) > 200 and pixels.std() > 0.05


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([line("train", 1, 3, 0.25)], ["After 3 updates", "train accuracy 25.0%"]),
        ([line("test", 0, 0, 0.5)], ["After 0 updates", "test accuracy 50.0%"]),
        (
            [
                line("train", 1, 5, 0.1),
                line("train", 2, 15, 0.2),
                line("eval", 1, 10, 0.3),
                line("eval", 2, 20, 0.4),
                line("test", 2, 20, 0.45),
            ],
            ["After 20 updates", "test accuracy 45.0%", "eval accuracy 40.0%", "(360 images)"],
        ),
    ],
)
def test_learning_curves_of_any_log(lines, words, tmp_path):
    caption = plots.learning_curves(lines, tmp_path / "curves.png")
    assert all(word in caption for word in words)
    assert is_picture(tmp_path / "curves.png")


@pytest.mark.parametrize("grid", [(4, 4), (4, 8)])
def test_captions_say_whether_there_is_structure(grid, tmp_path):
    rng = np.random.default_rng(0)
    n = grid[0] * grid[1]
    places = np.indices(grid).reshape(2, -1).T
    local = np.cos(places @ rng.normal(0, 0.5, (2, 64)) + rng.uniform(0, 6, 64))
    noise = rng.normal(size=(n, 64))
    for table, words in ((local, "Nearby patches have"), (noise, "No spatial structure")):
        maps = [np.exp(table @ table.T / 16)[None]]
        captions = [
            plots.similarity_map(table, grid, tmp_path / "similarity.png"),
            plots.score_map(maps, "s_ij", grid, tmp_path / "scores.png"),
            plots.attention_maps(maps, grid, tmp_path / "attention.png", note=""),
        ]
        assert [caption[: len(words)] for caption in captions] == [words] * 3
    uniform = [np.zeros((2, n, n))]  # all attention went to the class token
    assert "No spatial" in plots.attention_maps(uniform, grid, tmp_path / "uniform.png", note="")
    assert all(is_picture(path) for path in tmp_path.iterdir())


def test_a_long_caption_stays_on_the_page():
    figure, _ = plots.page(6.5, 2.0, "Title", "several WIDE words and numbers 0.123 " * 30)
    figure.draw_without_rendering()
    for text in figure.texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1

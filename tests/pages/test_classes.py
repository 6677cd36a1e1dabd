import numpy as np

from posvit_tf.data.splits import Split
from posvit_tf.pages import classes

NAMES = ("ant", "bee", "cat")


def test_what_is_said_of_the_classes():
    labels = np.array([0, 0, 0, 1, 1, 1, 1], "int32")  # no cat
    predicted = np.array([0, 0, 1, 1, 2, 2, 0])
    sure = np.array([9, 9, 1, 9, 2, 4, 3])
    logits = np.eye(3, dtype="float32")[predicted] * sure[:, None]
    images = np.arange(7, dtype="uint8").reshape(7, 1, 1, 1)
    found = classes.section(Split(images, labels), logits, NAMES)
    assert [(row["name"], row["accuracy"], row["taken_for"]) for row in found["per_class"]] == [
        ("bee", 1 / 4, ("cat", 2)),
        ("ant", 2 / 3, ("bee", 1)),
        ("cat", None, None),
    ]
    assert [[count for count, _ in row] for row in found["cells"]] == [
        [2, 1, 0],
        [1, 1, 2],
        [0, 0, 0],
    ]
    assert found["pairs"][0] == {"true": "bee", "predicted": "cat", "count": 2, "share": 0.5}
    surest_first = [mistake["name"] for mistake in found["mistakes"]]
    assert surest_first == [f"image {number} of 7" for number in (6, 7, 5, 3)]
    exp = np.exp(4)
    np.testing.assert_allclose(found["mistakes"][0]["probability"], exp / (exp + 2), rtol=1e-6)
    assert (found["wrong"], found["examples"]) == (4, 7)


def test_logits_far_apart_give_a_probability():
    logits = np.array([[1e4, 0, 0]], "float32")
    images, files = np.zeros((1, 1, 1, 3), "uint8"), np.array(["/data/bee/\udcff.png"], object)
    (mistake,) = classes.section(Split(images, np.array([1]), files), logits, NAMES)["mistakes"]
    assert (mistake["probability"], mistake["name"]) == (1.0, "bee/\\xff.png")

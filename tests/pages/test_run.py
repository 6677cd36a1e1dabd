import pytest

from posvit_tf.pages import run
from posvit_tf.training import run_files


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python main.py --config=digits", "python main.py --config=digits"),
        ("python main.py --workdir=/a --config=digits", "python main.py --config=digits"),
        (
            "python main.py --workdir '/a b' '--config.data.train_split=train[:9%]'",
            "python main.py '--config.data.train_split=train[:9%]'",
        ),
    ],
)
def test_the_command_to_do_it_again_makes_a_new_workdir(command, expected):
    assert run_files.Start("", command, {}, "").again == expected


def test_the_last_line_of_each_split_in_each_epoch_is_shown():
    lines = [
        {"step": step, "epoch": epoch, "split": split}
        for step, epoch, split in (
            *((50, 1, "train"), (60, 1, "train"), (60, 1, "eval")),
            *((110, 2, "train"), (120, 2, "train"), (120, 2, "test")),
        )
    ]
    shown = run.last_of_each_epoch(lines)
    assert shown == [lines[1], lines[2], lines[4], lines[5]]

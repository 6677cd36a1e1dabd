import pytest

from posvit_tf.cli import exit_code
from posvit_tf.errors import UserError


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("x: do y"), 2, "error: x: do y\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
    ],
)
def test_bad_input_and_ctrl_c_end_in_one_line(error, code, line, capsys):
    def command():
        raise error

    assert exit_code(command, debug=False) == code
    assert capsys.readouterr().err == line
    assert exit_code(lambda: 2, debug=False) == 2

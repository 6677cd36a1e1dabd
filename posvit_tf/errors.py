"""The one exception that a user is meant to read, and how the small commands end by it."""

import sys
from collections.abc import Callable


class UserError(ValueError):
    """Bad input: one line that says what is wrong, where, and what to do.

    `main.py` prints it and exits 2. It is a ValueError so that the layers, which raise it too,
    behave like any Keras layer inside other people's code.
    """


def exit_code(command: Callable[[], int]) -> int:
    """Runs a command; bad input and Ctrl-C become one line on stderr.

    Returns:
        The command's own exit code, 2 after a UserError, 130 after Ctrl-C.
    """
    try:
        return command()
    except UserError as error:
        code, message = 2, error
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    print(f"error: {message}", file=sys.stderr)
    return code

"""The one exception that a user is meant to read."""


class UserError(ValueError):
    """Bad input: one line that says what is wrong, where, and what to do.

    `main.py` prints it and exits 2. It is a ValueError so that the layers, which raise it too,
    behave like any Keras layer inside other people's code.
    """

"""The one exception that a user is meant to read."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input: one line that says what is wrong, where, and what to do.

    The command line prints it and exits 2. It is a ValueError so that the layers, which raise it too,
    behave like any Keras layer inside other people's code.
    """


def unknown(what: str, word: object, known: Iterable[str]) -> UserError:
    """That `word` is none of the known ones, and which of them are near."""
    known = list(known)
    near = difflib.get_close_matches(str(word), known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if len(known) <= 12 or not near:  # a long list helps only where nothing is near
        hint += f"choose from {', '.join(known)}"
    return UserError(f"unknown {what} {word!r}: {hint.strip()}")

"""How patches split into sets. Imports no NumPy: a wrong setting shows at once."""

from posvit_tf.errors import UserError


def check_sets(D: int, C: int) -> int:
    """L = D / C, the number of sets.

    Raises:
        UserError: the sets do not tile the patches, or leave nothing to associate.
    """
    if C < 2 or D % C or D // C < 2:
        raise UserError(
            f"D={D} patches do not split into sets of C={C}: set D to C*L with C and L of 2 or more"
        )
    return D // C

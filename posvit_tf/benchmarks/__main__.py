"""Measures speed: `posvit benchmark PART`, with the flags of that part.

    posvit benchmark train_step [--full]      a train step, here, in plain Keras and in PyTorch
    posvit benchmark inference [--full]       a forward pass of the exported model
    posvit benchmark data                     the data path, beside the step
    posvit benchmark scaling                  time and memory by the number of tokens
    posvit benchmark profile                  where a train step's time goes
    posvit benchmark theory                   a step of the simplified ViT, beside its products

--json=FILE writes the ratios, --rounds=N times each N times. `python -m posvit_tf.benchmarks.PART` is
the same.
"""

import runpy
import sys
from collections.abc import Sequence

from posvit_tf.errors import UserError, unknown

PARTS = ("train_step", "inference", "data", "scaling", "profile", "theory")


def run(arguments: Sequence[str]) -> None:
    """Runs a command line: PART and its flags."""
    part, *flags = arguments or ("",)
    if part in ("-h", "--help"):
        print(__doc__)
        return
    if not part or part.startswith("-"):
        raise UserError(f"no part is named first: choose from {', '.join(PARTS)}")
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    sys.argv = [f"posvit benchmark {part}", *flags]
    runpy.run_module(f"posvit_tf.benchmarks.{part}", run_name="__main__")

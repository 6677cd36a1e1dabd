"""`python main.py` in a clone is `posvit` where the package is installed: posvit_tf/cli.py."""

import sys

from posvit_tf.cli import main, run

__all__ = ["main", "run"]

if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""`python -m posvit_tf` is `posvit`."""

import sys

from posvit_tf.cli import main

sys.exit(main())

"""``python -m hypersphere`` is the ``hypersphere`` command."""

import sys

from .cli import main

sys.exit(main())

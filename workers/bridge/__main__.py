"""`python -m workers.bridge`."""

import sys

from workers.bridge.program import main

sys.exit(main())

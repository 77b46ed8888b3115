"""`python -m workers.agent`."""

import sys

from workers.agent.program import main

sys.exit(main())

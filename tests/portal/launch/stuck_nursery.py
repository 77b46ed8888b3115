"""Stands in for `portal.launch.processes.nursery`: it has loaded, and never says whom it started."""

import time

print("loaded", flush=True)
time.sleep(600)

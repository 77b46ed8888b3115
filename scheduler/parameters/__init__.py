"""The scheduler's knobs: one documented list, which also has their values for one planning.

The admin console, the settings reference and the tests read `PARAMETERS`; a knob that nothing in `scheduler/` or in
the planning loop reads does not stand there.
"""

from scheduler.parameters.knobs import PARAMETERS, Parameters

__all__ = ["PARAMETERS", "Parameters"]

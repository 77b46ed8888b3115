"""The scheduler's knobs: one documented list, and their values for one planning.

The admin console, the settings reference and a test all read `PARAMETERS`; a knob that nothing in `scheduler/` or in
the planning loop reads does not stand there.
"""

from scheduler.parameters.knobs import PARAMETERS
from scheduler.parameters.parameter import Parameter
from scheduler.parameters.values import Parameters

__all__ = ["PARAMETERS", "Parameter", "Parameters"]

"""Core, portal and agent may not import each other's rule of what is an instance (MIG): here the three are held against each other."""

from hypothesis import example, given
from hypothesis import strategies as st

from portal.cluster import instances as portals
from scheduler.model import placements as cores
from workers.telemetry.sampler import GpuFound

NAMES = st.builds(
    "".join,
    st.lists(
        st.sampled_from(
            [
                "NVIDIA ",
                "A100",
                "A30",
                "RTX Pro",
                " MIG",
                " ",
                "-",
                "_",
                ":",
                "1c.",
                "2g.",
                "9g.",
                "10gb",
                "+me",
                "GB",
                "\n",
            ]
        ),
        max_size=7,
    ),
)


@given(NAMES)
@example("NVIDIA A100-SXM4-80GB MIG 1g.10gb")
@example("A1001g.10gb")
@example("RTX PRO 6000 MIG 2c.4g.96gb+gfx")
def test_core_portal_and_agent_mean_the_same_by_an_instance(name):
    found = portals.instance_of(name)
    assert (found is not None) == cores.is_instance(name)
    assert (found is not None) == GpuFound(0, "GPU-0", name, 1).is_instance
    assert (found.share if found else 1.0) == cores.share_of_gpu(name)
    assert portals.only_instances([name]) == cores.only_instances({name})

"""Jobs, profiles and GPUs for the tests of sharing."""

import numpy as np

from scheduler.sharing.model import Asker, Profile, Resident, SharedGpu

GIB = 1024
RISING, FALLING = np.linspace(0, 1, 16), np.linspace(1, 0, 16)
BUMPS = np.array([0.0, 1.0, 0.0, 1.0] * 4)


def profile(shape=RISING, *, memory=RISING, top_mib=4 * GIB, pcie=None):
    """`shape` of the SMs' use, `memory` in parts of `top_mib`; PCIe traffic as the SMs' unless given."""
    return Profile({"memory_mib": memory * top_mib, "gpu": shape, "pcie_mb_s": 100 * (shape if pcie is None else pcie)})


def asker(key=1, gib=4, **fields):
    return Asker(key, gib * GIB, fields.pop("signature", f"s{key}"), **{"compute": 0, **fields})


def resident(key=100, gib=4, *, used_gib=None, grant_gib=None, **fields):
    grant = gib if grant_gib is None else grant_gib
    return Resident(asker(key, gib, **fields), int(grant * GIB), GIB * (grant if used_gib is None else used_gib))


def gpu(key=0, *residents, gib=16, used=()):
    return SharedGpu(key, gib * GIB, tuple(residents), np.array(used, dtype=np.float64) * GIB)

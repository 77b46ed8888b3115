"""CRC-32C as TensorBoard's files have it (TFRecord: rotated and shifted, "masked"), for many records at a time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

POLYNOMIAL = 0x82F63B78
MASK = 0xA282EAD8


@functools.cache
def _table() -> np.ndarray:
    import numpy as np  # late: few readers look at curves

    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(POLYNOMIAL), table >> 1)
    return table


def masked(raw: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the masked sums of stretches of bytes: raw is uint8, starts and lengths are (n,); (n,) of uint32.

    It takes as many steps as the longest stretch has bytes, each for all stretches that are so long.
    """
    import numpy as np

    order = np.argsort(-lengths, kind="stable")
    starts, longer = (
        starts[order],
        np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left"),
    )
    table, sums = _table(), np.full(len(starts), 0xFFFFFFFF, dtype=np.uint32)
    for place, count in enumerate(longer.tolist()):
        now = sums[:count]
        sums[:count] = table[(now ^ raw[starts[:count] + place]) & 0xFF] ^ now >> 8
    sums = ~sums
    told = np.empty_like(sums)
    told[order] = (sums >> 15 | sums << 17) + np.uint32(MASK)
    return told

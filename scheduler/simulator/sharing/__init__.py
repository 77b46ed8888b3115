"""Jobs that share GPUs, simulated: their use by the second, how they slow one another, crashes, and the cost in energy.

The policies are those of `scheduler.sharing`, the very same code (algorithms.md section 11, seams S4).
"""

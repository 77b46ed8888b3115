"""Jobs that share GPUs, simulated: what they use by the second, how they slow one another, who crashes, what it costs in energy.

The policies are those of `scheduler.sharing`, the very same code (algorithms.md section 11, seams S4).
"""

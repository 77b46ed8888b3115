"""Jobs that share GPUs, as two published simulators have them."""

"""Benchmarks: `./berth bench NAME [--json]`. Figures are printed, never asserted in tests: machines are shared and noisy."""

"""Curves that a job writes down: lines of `metrics.jsonl`, and the scalars of TensorBoard's event files."""

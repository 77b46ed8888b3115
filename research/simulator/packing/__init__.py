"""The packing protocol on fractional GPUs: rival packers, one file each, and the measurement (docs/evidence/openb.md)."""

"""The papers' tables and figures, regenerated: one file an experiment, each listed in `registry`."""

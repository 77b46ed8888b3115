"""Modules for training scripts. The agent gives this directory to jobs as BERTH_INSTRUMENT_PATH."""

"""What a training script may import. The agent gives this directory to jobs as BERTH_INSTRUMENT_PATH."""

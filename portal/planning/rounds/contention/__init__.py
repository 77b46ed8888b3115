"""CPU jobs that take a node's memory bandwidth from training jobs (algorithms, section 9): one pass every few seconds."""

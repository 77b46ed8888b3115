"""The simulator (algorithms.md section 13): a discrete-event driver of the very same scheduling core as the service."""

"""Jobs that share a GPU: which are kept apart from now on."""

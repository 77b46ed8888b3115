"""Jobs, attempts and nodes in the REST API."""

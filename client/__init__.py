"""The command line's client: calls the REST API and needs nothing but Python."""

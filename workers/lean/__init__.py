"""Light stand-ins for what the shim needs of large library modules."""

"""A job's command, code, files, variables and software, and the line that makes the same job."""

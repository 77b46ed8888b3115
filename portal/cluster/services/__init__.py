"""Register nodes, hear from them, drain, resume and declare them dead."""

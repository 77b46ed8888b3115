"""Two to four jobs side by side: what they asked for, how it went, and their curves laid over each other."""

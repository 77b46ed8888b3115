"""Two to four jobs side by side: their requests, their course, and their curves over each other."""

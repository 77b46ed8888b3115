"""What jobs print: what a line is, and the one reader of lines that all who show output use."""

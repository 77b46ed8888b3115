"""Jobs' output: the rule of a line, and the one reader of lines for all pages and programs."""

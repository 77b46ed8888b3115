"""What a job wrote: its files as a tree, a preview of one, and its curves."""

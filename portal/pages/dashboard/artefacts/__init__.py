"""The files that a job wrote: a tree, a preview of one file, and its curves."""

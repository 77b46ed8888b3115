"""The figures that experiment `coda` reads from its runs."""

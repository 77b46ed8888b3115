"""Authors run it: the papers' experiments, benchmarks, and pictures of all pages. Nothing of the product imports it."""

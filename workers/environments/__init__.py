"""Software environments of jobs: the node's offer, a part's plan, the build, and the cleaning."""

"""Software environments of jobs: what this node offers, what a part gets of it, how it is built, and what is cleaned away."""

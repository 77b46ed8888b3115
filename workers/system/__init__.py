"""Linux for agent and shim: files, processes, and the walls round a job. Standard library only."""

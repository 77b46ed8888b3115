"""Why a job failed, from its end and its last lines, and its remedies."""

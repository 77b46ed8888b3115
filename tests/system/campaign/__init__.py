"""A fault campaign: jobs of all tenants keep coming to a Berth of which something breaks every few seconds.

    .venv/bin/python -m tests.system.campaign [--seconds S] [--seed N] [--faults A,B] [--json]

Truth is what the jobs themselves wrote (`helpers/ledger_job.py`), not what the database says.
"""

"""What the system tests share: a tenant's client, the ledger outside the database, mutated copies of the source."""

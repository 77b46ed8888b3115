"""The guides of docs/, readable and searchable in the portal, always of the version that runs."""

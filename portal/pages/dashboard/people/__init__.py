"""The account page, a tenant's members, and invitations."""

"""The world as it really is: jobs' true speeds, profiles, tuning, and what the service finds out of them."""

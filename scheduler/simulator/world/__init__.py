"""The world as it really is: jobs' true speeds, profiles, tuning, and the service's measurements of them."""

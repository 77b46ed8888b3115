"""Time-sharing in rounds (Gavel, OSDI '20): fractions of time by GPU type, and the rounds that come near to them."""

"""Everything that changes jobs. Views, the API, the agent door and plannings call these, and nothing else writes."""

"""Jobs that end when nobody uses them: what idleness is, how it is counted, and what use is (the field `idle_timeout_s`)."""

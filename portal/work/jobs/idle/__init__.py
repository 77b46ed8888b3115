"""Jobs that end when nobody uses them: idleness, how it is counted, and how use is seen (the field `idle_timeout_s`)."""

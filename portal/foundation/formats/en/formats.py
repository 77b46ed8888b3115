"""How the console writes times: ISO 8601 order, UTC, 24 hours. Portal pages convert to the reader's zone themselves."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y-m-d H:i:s"

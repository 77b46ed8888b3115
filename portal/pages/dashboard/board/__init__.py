"""The cluster as numbers: one compact JSON for every reader, computed once a second, sent on as differences.

`facts` reads the database, `shares` what was held over h hours, `groups` sums up, `board` puts them together,
`differences` compares two boards, `feed` keeps the present one in Redis, `ticker` sends what changed.
"""

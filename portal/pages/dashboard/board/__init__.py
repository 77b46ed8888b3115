"""The cluster as numbers: one compact JSON for every reader, computed once a second, sent on as differences.

`facts` reads the database, `board` sums up and puts together, `feed` keeps the present board in Redis, `ticker` sends changes.
"""

"""Change artefacts. `taking`: messages and files of a node. `removing`: by a user, at a job's end or with time.

A node *tells* of files (`artefacts_told`); each answer says `send` from which byte, `kept`, or `refused` and why. It then
sends pieces (`artefact_append`), each with its SHA-256; the last names the whole file's, which is checked before the content
takes its place. Telling the same again changes nothing, so a node that was killed, or a portal that was restored, just tells.
"""

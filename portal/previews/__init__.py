"""What a file of a job shows without being downloaded: text, tables, pictures, arrays, checkpoints and curves.

Pure: a file in, values for a page out. The files are a tenant's, so nothing here runs them, unpickles them or decodes a
picture, and no file is read beyond a set number of bytes, whatever it says about itself (docs/decisions/0085).
"""

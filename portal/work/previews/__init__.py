"""Views of a job's file without a download: text, tables, pictures, arrays, checkpoints and curves.

The files are a tenant's. `asking` has them read by `program`, in a process of its own with limits (docs/decisions/0239).
The readers are pure, and import only the standard library: nothing runs a file, unpickles it or decodes a picture, and
no file is read beyond a set number of bytes, whatever it says about itself (docs/decisions/0085).
"""

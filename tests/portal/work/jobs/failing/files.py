"""A job's files as it keeps them."""

import base64


def encoded(files):
    return {
        name: base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()
        for name, text in files.items()
    }

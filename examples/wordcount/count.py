"""An array job: task BERTH_ARRAY_INDEX of BERTH_ARRAY_SIZE counts the words in its share of Python's library files."""

import collections
import os
import re
from pathlib import Path

index, size = int(os.environ["BERTH_ARRAY_INDEX"]), int(os.environ["BERTH_ARRAY_SIZE"])
library = Path(os.__file__).parent
files = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts][index::size]
words = collections.Counter()
for number, path in enumerate(files, 1):
    words.update(re.findall(r"[A-Za-z_]+", path.read_text(errors="replace")))
    if number % 100 == 0:
        print(f"{number} of {len(files)} files", flush=True)
print(f"{words.total()} words in {len(files)} files; the commonest: {words.most_common(5)}")

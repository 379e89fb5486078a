"""How soon `suffice serve --task demo` shows a page, in turns with imports of what it rests on.

    python lab/bench/serve_demo.py

Each measurement is a process of its own, from the command to the first 200 of the sign-in page.
In a fresh clone run it twice: the first run also compiles byte code and kernels.
"""

import re
import subprocess
import sys
import time
from statistics import median
from urllib.request import urlopen

from harness import claim

TIMES = 5
IMPORTS = (sys.executable, "-c", "import fastapi, uvicorn, jinja2, pyarrow.dataset")
DEMO = (sys.executable, "-m", "suffice", "serve", "--task", "demo", "--port", "0")


def show_first_page() -> float:
    """Run the demo until its first page is there; return how many seconds that took."""
    start = time.perf_counter()
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True) as process:
        url = re.search(r"http://[\d.]+:\d+", process.stdout.readline()).group()
        with urlopen(f"{url}/login") as page:
            assert page.status == 200
        seconds = time.perf_counter() - start
        process.terminate()
        process.stdout.read()
    return seconds


def import_seconds() -> float:
    """Return how long the imports take in a process of their own."""
    start = time.perf_counter()
    subprocess.run(IMPORTS, check=True)
    return time.perf_counter() - start


def main() -> list[dict]:
    """Measure and return the claims."""
    turns = [(show_first_page(), import_seconds()) for _ in range(TIMES)]
    ratio = median(page / imports for page, imports in turns)
    return [claim(f"`suffice serve --task demo` to its first page, to {IMPORTS[2]}", ratio, 5.0)]


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))

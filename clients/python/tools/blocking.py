"""Writes the blocking client from the client for asyncio.

The argument is the directory of the package to write to, hindsight of the repository by
default. What asyncio and threads do differently is in hindsight/aio/_loop.py and
hindsight/_threads.py, which have the same names.
"""

import pathlib
import re
import sys

HINDSIGHT = pathlib.Path(__file__).resolve().parents[1] / "hindsight"
FILES = ["_connection.py", "client.py"]
RULES = [
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bhindsight\.aio\._loop\b", "hindsight._threads"),
    (r"\bhindsight\.aio\b", "hindsight"),
    (r"^import grpc\.aio\n", ""),
    (r"\bgrpc\.aio\b", "grpc"),
    (r"The tasks of one event loop", "Threads"),
    (r'\A"""The (\w+) for asyncio\b', r'"""The blocking \1'),
]


def blocking(name: str) -> str:
    """The text of a file of the blocking client."""
    text = (HINDSIGHT / "aio" / name).read_text()
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return f"# Written by tools/blocking.py from aio/{name}: do not edit.\n{text}"


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HINDSIGHT
    for name in FILES:
        (out / name).write_text(blocking(name))

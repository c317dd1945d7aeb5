"""When a call is sent again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Optional

from hindsight.errors import HindsightError


@dataclass(frozen=True)
class Retry:
    """How a call is sent again, with the same ids, until its deadline.

    A call is sent again if no server answered, or if the server says after what time the call
    may succeed. The wait before try n + 1 is that time plus a random part of
    min(longest, first 2^(n-1)) seconds.
    """

    #: At most this many tries; 1 sends every call once. Absent: as many as the deadline allows.
    max_tries: Optional[int] = None
    #: The longest first wait in seconds.
    first: float = 0.1
    #: The longest wait in seconds.
    longest: float = 2.0


class Tries:
    """The tries of one call."""

    def __init__(self, retry: Retry, timeout: float, again: bool = True) -> None:
        self._retry = retry
        self._again = again
        self._deadline = time.monotonic() + timeout
        self.count = 0

    def begin(self) -> float:
        """Counts a try and returns the seconds that it has."""
        self.count += 1
        return max(self._deadline - time.monotonic(), 0.001)

    def wait(self, error: HindsightError) -> float:
        """The seconds to wait after a failed try. Raises the error if no further try is allowed."""
        error.tries = self.count
        last = self._retry.max_tries is not None and self.count >= self._retry.max_tries
        if last or not self._again or not error.retryable:
            raise error
        wait = backoff(self._retry, self.count, error.retry_after)
        if time.monotonic() + wait >= self._deadline:
            raise error
        return wait


def backoff(retry: Retry, tries: int, retry_after: Optional[float]) -> float:
    """The seconds to wait after so many tries."""
    limit = min(retry.longest, retry.first * 2.0 ** min(tries - 1, 60))
    return (retry_after or 0.0) + random.uniform(0.0, limit)

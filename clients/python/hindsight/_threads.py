"""What the blocking client waits with; hindsight/aio/_loop.py has the same for asyncio."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from html import escape
from threading import Lock
from time import sleep
from typing import Any, Optional

from grpc import insecure_channel, secure_channel

from hindsight.errors import HindsightError

__all__ = ["Closed", "Condition", "Future", "Lock", "Shown", "Worker", "exchange", "insecure_channel", "new_future", "secure_channel", "sleep"]

#: Raised by a call on a closed channel.
Closed = ValueError


class Condition(threading.Condition):
    """A condition whose wait may end early."""

    def pause(self, seconds: Optional[float]) -> None:
        """Waits for a notification, at most so many seconds."""
        self.wait(seconds)


class Worker:
    """A thread that runs beside its creator."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=run, name="hindsight-session", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the end of the thread."""
        self._thread.join()


class Shown:
    """A model in a notebook."""

    def _repr_html_(self: Any) -> str:
        try:
            html: str = self.stats()._repr_html_()
        except HindsightError as e:
            return escape(f"{self!r}: {e}")
        return html

    def plot(self: Any, *figures: str) -> Any:
        """Plots figures of the history, by default skill and regret; see History.plot."""
        return self.history().plot(*figures)


def exchange(method: Any, message: Any, **options: Any) -> tuple[Any, Any]:
    """Makes a call. Returns the response and the trailers."""
    response, call = method.with_call(message, **options)
    return response, call.trailing_metadata()


def new_future() -> Future[Any]:
    """A future that no executor runs."""
    return Future()

"""What the blocking client waits with; hindsight/aio/_loop.py has the same for asyncio."""

from __future__ import annotations

from html import escape
from time import sleep
from typing import Any

from grpc import insecure_channel, secure_channel

from hindsight.errors import HindsightError

__all__ = ["Shown", "exchange", "insecure_channel", "secure_channel", "sleep"]

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

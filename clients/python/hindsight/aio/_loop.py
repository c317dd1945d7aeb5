"""What the client for asyncio waits with; hindsight/_threads.py has the same for threads."""

from __future__ import annotations

from asyncio import sleep
from typing import Any

from grpc.aio import insecure_channel, secure_channel

__all__ = ["Shown", "exchange", "insecure_channel", "secure_channel", "sleep"]

class Shown:
    """A model in a notebook: a repr cannot wait for the server."""


async def exchange(method: Any, message: Any, **options: Any) -> tuple[Any, Any]:
    """Makes a call. Returns the response and the trailers."""
    call = method(message, **options)
    return await call, await call.trailing_metadata()

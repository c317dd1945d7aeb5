"""What the client for asyncio waits with; hindsight/_threads.py has the same for threads."""

from __future__ import annotations

import asyncio
from asyncio import Future, Lock, sleep
from collections.abc import Awaitable, Callable
from typing import Any, Optional

import grpc.aio
from grpc.aio import insecure_channel, secure_channel

__all__ = ["Closed", "Condition", "Future", "Lock", "Shown", "Worker", "exchange", "insecure_channel", "new_future", "secure_channel", "sleep"]

#: Raised by a call on a closed channel.
Closed = grpc.aio.UsageError


class Condition(asyncio.Condition):
    """A condition whose wait may end early."""

    async def pause(self, seconds: Optional[float]) -> None:
        """Waits for a notification, at most so many seconds."""
        if seconds is None:
            await self.wait()
            return
        try:
            await asyncio.wait_for(self.wait(), seconds)
        except asyncio.TimeoutError:
            pass


class Worker:
    """A task that runs beside its creator."""

    def __init__(self, run: Callable[[], Awaitable[None]]) -> None:
        self._task = asyncio.ensure_future(run())

    async def join(self) -> None:
        """Waits for the end of the task."""
        await self._task


class Shown:
    """A model in a notebook: a repr cannot wait for the server."""


async def exchange(method: Any, message: Any, **options: Any) -> tuple[Any, Any]:
    """Makes a call. Returns the response and the trailers."""
    call = method(message, **options)
    return await call, await call.trailing_metadata()


def new_future() -> Future[Any]:
    """A future of the running loop."""
    return asyncio.get_running_loop().create_future()

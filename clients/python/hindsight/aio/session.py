"""The session for asyncio: calls whose answers are awaited later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Optional, Union

import grpc
import grpc.aio

from hindsight import _calls, errors, messages
from hindsight._flights import Flights
from hindsight._values import Input, Label, Span
from hindsight.retry import Tries
from hindsight.v1 import prediction_pb2

if TYPE_CHECKING:
    from hindsight.aio.client import Client


class Session:
    """A stream of calls of one model, answered in their order.

    Enter it with async with. predict and observe return a future as soon as fewer than
    in_flight calls wait for their answers: outcome = await (await session.observe(x, y)).
    When the stream breaks, the next one sends the calls without an answer again, with the
    same ids and in the same order. A call that the server refuses for the moment is sent
    again after the others.
    """

    def __init__(self, client: Client, model: str, in_flight: int = 256) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}, want 1 or more")
        self._client = client
        self._model = model
        self._in_flight = in_flight
        self._flights = Flights(client.retry, client.timeout)
        self._stream = 0  # The number of the stream that is in use.
        self._closing = False
        self._failure: Optional[errors.HindsightError] = None
        self._changed = asyncio.Condition()  # What the tasks that wait for room wait for.
        self._wake = asyncio.Event()  # What the requests of the stream wait for.
        self._task: Optional[asyncio.Task[None]] = None

    async def predict(
        self, x: Input, *, id: Optional[str] = None, label_ttl: Optional[Span] = None, remember: bool = True
    ) -> asyncio.Future[messages.Prediction]:
        """Predicts for features, or for named inputs."""
        request = _calls.predict_request(self._model, x, id, label_ttl, remember)
        await self._room()
        future: asyncio.Future[messages.Prediction] = asyncio.get_running_loop().create_future()
        self._flights.predict(request, future)
        await self._notify()
        return future

    async def observe(
        self, x: Union[messages.Prediction, str, Input], label: Label, *, weight: Optional[float] = None, id: Optional[str] = None
    ) -> asyncio.Future[messages.Outcome]:
        """Learns what happened, exactly once. x is a prediction, its id, or an input."""
        request = _calls.observe_request(self._model, x, label, weight, id)
        await self._room()
        future: asyncio.Future[messages.Outcome] = asyncio.get_running_loop().create_future()
        self._flights.observe(request, future)
        await self._notify()
        return future

    async def close(self) -> None:
        """Waits for the answers to all calls, and ends the session."""
        self._closing = True
        await self._notify()
        if self._task is not None:
            await self._task

    async def __aenter__(self) -> Session:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _notify(self) -> None:
        self._wake.set()
        async with self._changed:
            self._changed.notify_all()

    async def _room(self) -> None:
        """Waits until a call may be added."""
        if self._task is None:
            raise RuntimeError("enter the session with async with")
        async with self._changed:
            await self._changed.wait_for(
                lambda: len(self._flights) < self._in_flight or self._failure is not None or self._closing
            )
        if self._failure is not None or self._closing:
            raise errors.SessionClosed("the session has ended") from self._failure

    async def _run(self) -> None:
        """Opens streams until the session is closed and every call is answered."""
        tries: Optional[Tries] = None
        try:
            while await self._wanted():
                if tries is None:
                    tries = Tries(self._client.retry, self._client.timeout)
                tries.begin()
                progress, error = await self._receive()
                if progress:
                    tries = None
                elif len(self._flights):
                    await asyncio.sleep(tries.wait(error))
        except errors.HindsightError as final:
            self._fail(final)
        except asyncio.CancelledError:
            self._fail(errors.SessionClosed("the session was cancelled"))
            raise
        finally:
            await self._notify()

    async def _wanted(self) -> bool:
        """Waits until there is a call to send; False if the session is over."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._flights) > 0 or self._closing)
        self._stream += 1
        self._flights.restart()
        return len(self._flights) > 0

    async def _receive(self) -> tuple[bool, errors.HindsightError]:
        """Takes the answers of one stream, and tells whether there was one, and how it ended."""
        progress = False
        error: errors.HindsightError = errors.Unreachable("the server ended the session", code=grpc.StatusCode.UNAVAILABLE)
        try:
            stream = self._client.open_session(self._requests(self._stream))
            async for response in stream:
                progress = True
                settle = self._flights.answered(response, time.monotonic())
                if settle is not None:
                    settle()
                await self._notify()
        except grpc.RpcError as e:
            error = self._client.error(e)
        except grpc.aio.UsageError as e:  # The channel is closed.
            error = errors.SessionClosed(str(e))
        finally:
            self._stream += 1  # Ends the requests of this stream.
            await self._notify()
        return progress, error

    async def _requests(self, stream: int) -> AsyncIterator[prediction_pb2.SessionRequest]:
        """The requests of one stream. gRPC asks for them in a task of its own."""
        while self._stream == stream:
            self._wake.clear()
            now = time.monotonic()
            request = self._flights.take(now)
            if request is not None:
                yield request
                continue
            if self._closing and not len(self._flights):
                return
            try:
                await asyncio.wait_for(self._wake.wait(), self._flights.due(now))
            except asyncio.TimeoutError:
                pass  # What was refused is due.

    def _fail(self, error: errors.HindsightError) -> None:
        self._failure = error
        futures: list[Any] = self._flights.fail()
        for future in futures:
            if not future.done():
                future.set_exception(error)

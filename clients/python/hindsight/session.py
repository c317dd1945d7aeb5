# Written by tools/blocking.py from aio/session.py: do not edit.
"""The blocking session: many calls in flight."""

from __future__ import annotations

import time
from collections.abc import Iterator, Callable
from typing import Any, Optional, Union

import grpc

from hindsight import _calls, errors, messages
from hindsight._flights import Flights
from hindsight._servers import Place
from hindsight._values import Input, Label, Span
from hindsight._connection import Connection
from hindsight._threads import Closed, Condition, Future, Lock, Worker, new_future, sleep
from hindsight.retry import Tries
from hindsight.v1 import prediction_pb2


class Session:
    """A stream of calls of one model, answered in their order.

    predict and observe return a future as soon as fewer than in_flight calls wait for
    their answers: outcome = session.observe(x, y).result(). Do not call them in a
    callback of a future. When the stream breaks, the session opens another stream and
    sends the calls without an answer again, with the same ids and in the same order. A
    call that the server refuses for the moment is sent again after the others.
    Threads may share a session.
    """

    def __init__(self, client: Connection, model: str, in_flight: int = 256) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}, want 1 or more")
        self._client = client
        self._model = model
        self._in_flight = in_flight
        # The lock guards what follows. The worker and the requests of its stream wait for
        # work, callers wait for room.
        self._lock = Lock()
        self._work = Condition(self._lock)
        self._room = Condition(self._lock)
        self._flights = Flights(client.retry, client.timeout)
        self._stream = 0  # The number of the stream that is in use.
        self._closing = False
        self._leaving = False  # The stream takes no more calls: the next one may find the owner.
        self._sought = 0  # The streams in turn whose server was not the owner.
        self._failure: Optional[errors.HindsightError] = None
        self._worker: Optional[Worker] = None  # Started by the first call.

    def predict(
        self, x: Input, *, id: Optional[str] = None, label_ttl: Optional[Span] = None, remember: bool = True
    ) -> Future[messages.Prediction]:
        """Predicts for features, or for named inputs."""
        request = _calls.predict_request(self._model, x, id, label_ttl, remember)
        return self._add(lambda future: self._flights.predict(request, future))

    def observe(
        self, x: Union[messages.Prediction, str, Input], label: Label, *, weight: Optional[float] = None, id: Optional[str] = None
    ) -> Future[messages.Outcome]:
        """Learns what happened, exactly once. x is a prediction, its id, or an input."""
        request = _calls.observe_request(self._model, x, label, weight, id)
        return self._add(lambda future: self._flights.observe(request, future))

    def close(self) -> None:
        """Waits for the answers to all calls, and ends the session."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()
        if self._worker is not None:
            self._worker.join()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, add: Callable[[Future[Any]], None]) -> Future[Any]:
        """Adds a call as soon as there is room for the call, and returns its future."""
        self._client.check()  # A fork has neither the worker nor its lock.
        with self._lock:
            while len(self._flights) >= self._in_flight and self._failure is None and not self._closing:
                self._room.wait()
            if self._failure is not None or self._closing:
                raise errors.SessionClosed("the session has ended") from self._failure
            future = new_future()
            add(future)
            if self._worker is None:
                self._worker = Worker(self._run)
            self._work.notify_all()
            return future

    def _run(self) -> None:
        """Opens streams until the session is closed and every call is answered."""
        tries: Optional[Tries] = None
        try:
            while self._wanted():
                if tries is None:
                    tries = Tries(self._client.retry, self._client.timeout)
                tries.begin()
                progress, error = self._receive()
                if progress:
                    tries = None
                elif len(self._flights):
                    sleep(tries.wait(error))
        except errors.HindsightError as final:
            self._fail(final)
        except BaseException:
            self._fail(errors.SessionClosed("the session was cancelled"))
            raise

    def _wanted(self) -> bool:
        """Waits until there is a call to send; False if the session is over."""
        with self._lock:
            while not len(self._flights) and not self._closing:
                self._work.wait()
            self._stream += 1
            self._leaving = False
            self._flights.restart()
            return len(self._flights) > 0

    def _receive(self) -> tuple[bool, errors.HindsightError]:
        """Takes the answers of one stream. Returns whether an answer came, and why the stream ended."""
        progress = False
        error: errors.HindsightError = errors.Unreachable("the server ended the session", code=grpc.StatusCode.UNAVAILABLE)
        place = self._client.place(self._model)
        try:
            stream = self._client.open_session(place, self._requests(self._stream))
            for response in stream:
                leaving = not progress and self._elsewhere(place, stream)
                progress = True
                with self._lock:
                    self._leaving = self._leaving or leaving
                    settle = self._flights.answered(response, time.monotonic())
                    if settle is not None:
                        self._room.notify()
                    if settle is None or self._leaving or not len(self._flights):
                        self._work.notify_all()
                if settle is not None:
                    settle()
                elif self._client.elsewhere(place, response):
                    break
        except grpc.RpcError as e:
            error = self._client.error(place, e)
        except errors.HindsightError as e:  # The token cannot be read.
            error = e
        except Closed as e:
            error = errors.SessionClosed(str(e))
        finally:
            with self._lock:
                self._stream += 1  # Ends the requests of this stream.
                self._work.notify_all()
        return progress, error

    def _elsewhere(self, place: Place, stream: Any) -> bool:
        """Returns whether the session looks for the owner by another stream. It tries each server once."""
        self._sought += 1
        if not self._client.forwarded(place, stream) or self._sought == self._client.servers:
            self._sought = 0
        return self._sought > 0

    def _requests(self, stream: int) -> Iterator[prediction_pb2.SessionRequest]:
        """The requests of one stream. gRPC asks for them beside the worker."""
        while True:
            with self._lock:
                while True:
                    now = time.monotonic()
                    request = self._flights.take(now) if self._stream == stream and not self._leaving else None
                    if request is not None:
                        break
                    if self._stream != stream or (self._closing and not len(self._flights)) or (self._leaving and not self._flights.sent()):
                        return
                    self._work.pause(self._flights.due(now))
            yield request

    def _fail(self, error: errors.HindsightError) -> None:
        with self._lock:
            self._failure = error
            settles = self._flights.fail(error)
            self._work.notify_all()
            self._room.notify_all()
        for settle in settles:
            settle()

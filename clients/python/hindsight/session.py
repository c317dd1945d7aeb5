"""The synchronous session: calls whose answers are waited for later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Optional, Union

import grpc

from hindsight import _calls, errors, messages
from hindsight._flights import Flights
from hindsight._values import Input, Label, Span
from hindsight.retry import Tries
from hindsight.v1 import prediction_pb2

if TYPE_CHECKING:
    from hindsight.client import Client


class Session:
    """A stream of calls of one model, answered in their order.

    predict and observe return a Future at once, or as soon as fewer than in_flight calls
    wait for their answers. So do not call them in a callback of a future. When the stream
    breaks, the next one sends the calls without an answer again, with the same ids and in
    the same order. A call that the server refuses for the moment is sent again after the
    others. Threads may share a session.
    """

    def __init__(self, client: Client, model: str, in_flight: int = 256) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}, want 1 or more")
        self._client = client
        self._model = model
        self._in_flight = in_flight
        # The lock guards what follows. One thread waits for work: that of the session, or
        # that of gRPC which asks for requests. Callers wait for room.
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._flights = Flights(client.retry, client.timeout)
        self._stream = 0  # The number of the stream that is in use.
        self._closing = False
        self._failure: Optional[errors.HindsightError] = None
        self._thread = threading.Thread(target=self._run, name="hindsight-session", daemon=True)
        self._thread.start()

    def predict(
        self, x: Input, *, id: Optional[str] = None, label_ttl: Optional[Span] = None, remember: bool = True
    ) -> Future[messages.Prediction]:
        """Predicts for features, or for named inputs."""
        request = _calls.predict_request(self._model, x, id, label_ttl, remember)
        future: Future[messages.Prediction] = Future()
        self._add(lambda: self._flights.predict(request, future))
        return future

    def observe(
        self, x: Union[messages.Prediction, str, Input], label: Label, *, weight: Optional[float] = None, id: Optional[str] = None
    ) -> Future[messages.Outcome]:
        """Learns what happened, exactly once. x is a prediction, its id, or an input."""
        request = _calls.observe_request(self._model, x, label, weight, id)
        future: Future[messages.Outcome] = Future()
        self._add(lambda: self._flights.observe(request, future))
        return future

    def close(self) -> None:
        """Waits for the answers to all calls, and ends the session."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()
        self._thread.join()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, add: Callable[[], None]) -> None:
        """Adds a call as soon as there is room for it."""
        with self._lock:
            while len(self._flights) >= self._in_flight and self._failure is None and not self._closing:
                self._room.wait()
            if self._failure is not None or self._closing:
                raise errors.SessionClosed("the session has ended") from self._failure
            add()
            self._work.notify_all()

    def _run(self) -> None:
        """Opens streams until the session is closed and every call is answered."""
        tries: Optional[Tries] = None
        while self._wanted():
            if tries is None:
                tries = Tries(self._client.retry, self._client.timeout)
            tries.begin()
            progress, error = self._receive()
            if progress:
                tries = None
                continue
            with self._lock:
                if not len(self._flights):
                    continue
            try:
                time.sleep(tries.wait(error))
            except errors.HindsightError as final:
                self._fail(final)
                return

    def _wanted(self) -> bool:
        """Waits until there is a call to send; False if the session is over."""
        with self._lock:
            while not len(self._flights) and not self._closing:
                self._work.wait()
            self._stream += 1
            self._flights.restart()
            return len(self._flights) > 0

    def _receive(self) -> tuple[bool, errors.HindsightError]:
        """Takes the answers of one stream, and tells whether there was one, and how it ended."""
        progress = False
        error: errors.HindsightError = errors.Unreachable("the server ended the session", code=grpc.StatusCode.UNAVAILABLE)
        try:
            for response in self._client.open_session(self._requests(self._stream)):
                progress = True
                with self._lock:
                    settle = self._flights.answered(response, time.monotonic())
                    if settle is not None:
                        self._room.notify()
                    if settle is None or not len(self._flights):
                        self._work.notify_all()
                if settle is not None:
                    settle()
        except grpc.RpcError as e:
            error = self._client.error(e)
        except errors.HindsightError as e:  # There is no token.
            error = e
        except ValueError as e:  # The channel is closed.
            error = errors.SessionClosed(str(e))
        with self._lock:
            self._stream += 1  # Ends the requests of this stream.
            self._work.notify_all()
        return progress, error

    def _requests(self, stream: int) -> Iterator[prediction_pb2.SessionRequest]:
        """The requests of one stream. gRPC asks for them in a thread of its own."""
        while True:
            with self._lock:
                while True:
                    now = time.monotonic()
                    request = self._flights.take(now) if self._stream == stream else None
                    if request is not None:
                        break
                    if self._stream != stream or (self._closing and not len(self._flights)):
                        return
                    self._work.wait(self._flights.due(now))
            yield request

    def _fail(self, error: errors.HindsightError) -> None:
        with self._lock:
            self._failure = error
            futures: list[Any] = self._flights.fail()
            self._work.notify_all()
            self._room.notify_all()
        for future in futures:
            future.set_exception(error)

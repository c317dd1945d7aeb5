"""The calls of a session without an answer. The sessions do the I/O and the locking."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

from hindsight import errors, messages
from hindsight.retry import Retry, backoff
from hindsight.v1 import prediction_pb2


@dataclass
class Flight:
    """One call of a session."""

    request: prediction_pb2.SessionRequest
    #: A future of concurrent.futures or of asyncio.
    future: Any
    tries: int = 0
    #: Until when the call is sent again. Set by the first refusal.
    until: Optional[float] = None


class Flights:
    """The calls without an answer, in their order."""

    def __init__(self, retry: Retry, timeout: float) -> None:
        self._retry = retry
        self._timeout = timeout
        self._last = 0
        self._open: dict[int, Flight] = {}
        self._unsent: deque[int] = deque()
        self._later: list[tuple[float, int]] = []  # A heap of the calls to be sent again.

    def __len__(self) -> int:
        return len(self._open)

    def sent(self) -> int:
        """The number of calls whose answer the stream owes."""
        return len(self._open) - len(self._unsent) - len(self._later)

    def predict(self, request: prediction_pb2.PredictRequest, future: Any) -> None:
        """Adds a call of Predict."""
        self._add(prediction_pb2.SessionRequest(predict=request), future)

    def observe(self, request: prediction_pb2.ObserveRequest, future: Any) -> None:
        """Adds a call of Observe."""
        self._add(prediction_pb2.SessionRequest(observe=request), future)

    def _add(self, request: prediction_pb2.SessionRequest, future: Any) -> None:
        self._last += 1
        request.correlation_id = self._last
        self._open[self._last] = Flight(request, future)
        self._unsent.append(self._last)

    def restart(self) -> None:
        """All calls are to be sent again, on another stream."""
        self._unsent = deque(self._open)
        self._later = []

    def take(self, now: float) -> Optional[prediction_pb2.SessionRequest]:
        """The next call to send, or None."""
        while self._later and self._later[0][0] <= now:
            self._unsent.append(heapq.heappop(self._later)[1])
        return self._open[self._unsent.popleft()].request if self._unsent else None

    def due(self, now: float) -> Optional[float]:
        """The seconds until take has a call, or None if only a new one can be the next."""
        return max(self._later[0][0] - now, 0.0) if self._later else None

    def answered(self, response: prediction_pb2.SessionResponse, now: float) -> Optional[Callable[[], None]]:
        """Takes an answer. Returns what settles the future, or None if the call is sent again."""
        flight = self._open.get(response.correlation_id)
        if flight is None:
            return None
        kind = response.WhichOneof("answer")
        if kind != "error":
            del self._open[response.correlation_id]
            value = messages.Prediction.of(response.prediction) if kind == "prediction" else messages.Outcome.of(response.outcome)
            return partial(_settle, flight.future, value, None)
        error = errors.of_status(response.error)
        flight.tries += 1
        error.tries = flight.tries
        if flight.until is None:
            flight.until = now + self._timeout
        due = now + backoff(self._retry, flight.tries, error.retry_after)
        last = self._retry.max_tries is not None and flight.tries >= self._retry.max_tries
        if error.retryable and not last and due < flight.until:
            heapq.heappush(self._later, (due, response.correlation_id))
            return None
        del self._open[response.correlation_id]
        return partial(_settle, flight.future, None, error)

    def fail(self, error: errors.HindsightError) -> list[Callable[[], None]]:
        """Gives up all calls. Returns what settles their futures."""
        settles: list[Callable[[], None]] = [partial(_settle, flight.future, None, error) for flight in self._open.values()]
        self._open, self._unsent, self._later = {}, deque(), []
        return settles


def _settle(future: Any, value: Any, error: Optional[errors.HindsightError]) -> None:
    """Settles a future, unless its owner has cancelled it."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)

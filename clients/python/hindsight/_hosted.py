"""A model that belongs to an object of Python: an estimator of scikit-learn or of river."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Optional, Union

from hindsight import _calls, messages
from hindsight._calls import new_id
from hindsight._local import Local, local
from hindsight.client import Client, Model
from hindsight.errors import HindsightError

#: A client, the address of a server, or None for the server that all estimators of the process share.
Given = Union[Client, str, None]
#: The rows of one call.
BATCH = 1024
#: The numbers of one call, about; a message has at most 16 MiB.
NUMBERS = 1 << 20
_lock = threading.Lock()
_clients: dict[tuple[int, str], Client] = {}
_alive: dict[str, Model] = {}
_collected: deque[str] = deque()


def client_of(given: Given) -> Client:
    """The client of an estimator. Clients of one address are one. A fork has other clients."""
    if isinstance(given, Client):
        return given
    if given is not None and not isinstance(given, str):
        raise TypeError(f"client is {given!r}, want a client of hindsight.connect, an address or None")
    key = (os.getpid(), given or "")
    with _lock:
        if key not in _clients:
            _clients[key] = Client.connect(given) if given else local()
        return _clients[key]


def infer(frame: Any, label: Any = None, **options: Any) -> dict[str, Any]:
    """Client.infer of the server that all estimators of the process share."""
    return client_of(None).infer(frame, label, **options)


class Hosted:
    """A model that belongs to an object. A pickle or a copy contains its export, and becomes another model when it is
    first used: an error of unpickling would be lost in the worker of a pool.

    A model whose object was collected is deleted before the next one is made, and at the end of Python: a call
    while objects are collected could wait for a lock that the same thread holds.
    """

    def __init__(self, given: Given, spec: Any, prefix: str, exported: bytes = b"") -> None:
        self._given, self._prefix, self._exported = given, prefix, exported
        self._using = threading.Lock()
        self._used: Optional[tuple[Model, messages.ModelInfo]] = None
        if not exported:
            self._use(spec)

    def _use(self, spec: Any = None) -> tuple[Model, messages.ModelInfo]:
        """The model, which the first use makes, and what it was then."""
        with self._using:
            if self._used is None:
                model = Model(client_of(self._given), f"{self._prefix}-{new_id()}")
                _sweep()
                if self._exported:
                    model.client.import_model(model.id, self._exported)
                else:
                    model.client.create(model.id, spec)
                _alive[model.id] = model
                weakref.finalize(self, _collected.append, model.id).atexit = False
                self._used, self._exported = (model, model.get()), b""
            return self._used

    @property
    def model(self) -> Model:
        return self._use()[0]

    @property
    def info(self) -> messages.ModelInfo:
        """The model as it was created."""
        return self._use()[1]

    def learn(self, rows: list[Any], labels: list[Any], weights: Optional[list[float]] = None) -> None:
        """Learns rows in their order."""
        for part in _parts(rows):
            self.model.observe_batch(rows[part], labels[part], weights=None if weights is None else weights[part])

    def predict(self, rows: list[Any], *, alternatives: bool) -> list[messages.Prediction]:
        """Predicts rows: alternatives, or rows that follow one another."""
        predict = self.model.predict_batch
        return [
            p for part in _parts(rows)
            for p in predict(rows[part], remember=False, horizon=0 if alternatives else part.start, alternatives=alternatives)
        ]

    def __reduce__(self) -> Any:
        exported = self._exported
        if not exported:
            file = io.BytesIO()
            self.model.export(file, without_ids=True)
            exported = file.getvalue()
        return Hosted, (self._given, None, self._prefix, exported)


def spec_of(learner: Union[str, Mapping[str, Any]], seed: int, spec: Optional[Mapping[str, Any]], **shape: Any) -> dict[str, Any]:
    """The spec of an estimator: its inputs and outputs, its parameters, the last of which wins."""
    return {**shape, "seed": seed, **({learner: {}} if isinstance(learner, str) else learner), **(spec or {})}


def _parts(rows: list[Any]) -> Iterator[slice]:
    """The rows of each call: at most BATCH, and fewer of wide ones."""
    size = max(1, min(BATCH, NUMBERS // max(1, len(rows[0]) if rows else 1)))
    return (slice(n, n + size) for n in range(0, len(rows), size))


def _sweep() -> None:
    """Deletes the models whose objects were collected."""
    while _collected:
        if (model := _alive.pop(_collected.popleft(), None)) is None:
            continue
        # Once: nobody waits for the answer. ValueError: the client is closed.
        with contextlib.suppress(HindsightError, ValueError):
            model.client.run(replace(_calls.delete(model.id, "", True, validate_only=False), again=False), timeout=5)


def _end() -> None:
    """Deletes all models but the models of local servers, which end too."""
    _collected.extend(id for id, model in _alive.items() if not isinstance(model.client, Local))
    _sweep()


atexit.register(_end)
# A fork has the objects of its parent, and deletes none of their models.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alive.clear)

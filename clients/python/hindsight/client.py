"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Optional, TypeVar, Union

import grpc

from hindsight import _calls, errors, messages
from hindsight._calls import UNCHANGED, Call, Unchanged
from hindsight._channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, options, target
from hindsight._security import Path, Security, Token
from hindsight._values import Input, Label, Span, Spec
from hindsight.retry import Retry, Tries
from hindsight.session import Session
from hindsight.v1 import model_pb2, model_pb2_grpc, prediction_pb2_grpc

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
_CHUNK = 1 << 20


class Client:
    """A connection to a server. Threads may share it."""

    def __init__(
        self, channel: grpc.Channel, *, address: str = "the given channel", timeout: float = DEFAULT_TIMEOUT,
        retry: Optional[Retry] = None, security: Optional[Security] = None,
    ) -> None:
        """Takes over a channel; see connect for the usual way."""
        self._channel = channel
        self._security = security or Security(address)
        self._address = address
        self.timeout = timeout
        self.retry = retry or Retry()
        stubs: Any = prediction_pb2_grpc.PredictionServiceStub, model_pb2_grpc.ModelServiceStub
        self._stubs: dict[str, Any] = {"PredictionService": stubs[0](channel), "ModelService": stubs[1](channel)}

    @classmethod
    def connect(
        cls,
        address: str = DEFAULT_ADDRESS,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retry: Optional[Retry] = None,
        keepalive: Optional[float] = 30.0,
        tls: bool = False,
        ca: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        server_name: str = "",
        token: Optional[Token] = None,
        token_in_plaintext: bool = False,
        credentials: Optional[grpc.ChannelCredentials] = None,
        channel_options: Optional[dict[str, Any]] = None,
    ) -> Client:
        """Returns a client of the server at an address, HOST or HOST:PORT.

        The connection is made with the first call. timeout is the deadline of a call in
        seconds, all its tries together. keepalive is after how many quiet seconds the
        server is asked whether it is there. channel_options are options of gRPC.

        tls, or one of the next four, encrypts the connection. ca is the file of the
        authorities that may sign the server's certificate, those of the system without
        it. cert and key are the files that say who the client is. server_name is the name
        in the server's certificate, if it is not that of the address. credentials are
        those of gRPC in their place.

        token says who calls: a text, a function that returns it, or the file of it as a
        pathlib.Path, which may change. It is sent over TLS or to this machine alone,
        unless token_in_plaintext is true.
        """
        name = target(address)
        security = Security(
            name, tls=tls, ca=ca, cert=cert, key=key, server_name=server_name, token=token,
            token_in_plaintext=token_in_plaintext, credentials=credentials,
        )
        settings = options(keepalive, security.options | (channel_options or {}))
        if security.credentials is None:
            channel = grpc.insecure_channel(name, settings)
        else:
            channel = grpc.secure_channel(name, security.credentials, settings)
        return cls(channel, address=name, timeout=timeout, retry=retry, security=security)

    def close(self) -> None:
        """Closes the connection. Calls in flight end."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def model(self, id: str) -> Model:
        """A model by its id or an alias. Nothing is sent: the model need not be there yet."""
        return Model(self, id)

    def create(
        self,
        id: str,
        spec: Spec,
        *,
        display_name: str = "",
        labels: Optional[Mapping[str, str]] = None,
        annotations: Optional[Mapping[str, str]] = None,
        label_ttl: Optional[Span] = None,
        max_pending_labels: Optional[int] = None,
        follows: str = "",
    ) -> Model:
        """Creates a model. If it is there with the same spec, it is returned as it is."""
        self.run(_calls.create(
            id, spec, display_name, labels, annotations, label_ttl, max_pending_labels, follows, validate_only=False,
        ))
        return Model(self, id)

    def models(
        self,
        prefix: str = "",
        *,
        labels: Optional[Mapping[str, str]] = None,
        learner: str = "",
        contains: str = "",
        order_by: str = "",
        show_deleted: bool = False,
        summary: bool = False,
        page_size: int = 0,
    ) -> Iterator[messages.ModelInfo]:
        """The models, page by page."""
        request = model_pb2.ListModelsRequest(
            prefix=prefix, labels=labels, learner=learner, contains=contains, order_by=order_by,
            show_deleted=show_deleted, include_summary=summary, page_size=page_size,
        )
        while True:
            page = self.run(_calls.list_page(request))
            for m in page.models:
                yield messages.ModelInfo.of(m)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def validate(self, spec: Spec) -> messages.SpecCost:
        """Fills in the defaults of a spec, and tells its features, memory and cost."""
        return self.run(_calls.validate(spec))

    def undelete(self, id: str) -> messages.ModelInfo:
        """Brings a deleted model back."""
        return self.run(_calls.undelete(id))

    def import_model(self, id: str, source: Union[bytes, IO[bytes]], *, timeout: float = 600.0) -> messages.ModelInfo:
        """Creates a model from the bytes or the file of an export."""
        chunks = pieces(source)
        return self.run(_calls.import_model(), timeout, lambda: _calls.import_requests(id, chunks))

    def set_alias(self, alias: str, model: str, *, expected_model: str = "") -> messages.Alias:
        """Makes an alias name a model."""
        return self.run(_calls.set_alias(alias, model, expected_model))

    def aliases(self) -> list[messages.Alias]:
        """The aliases, by name."""
        return self.run(_calls.aliases())

    def delete_alias(self, alias: str) -> None:
        """Removes an alias. Its model stays."""
        self.run(_calls.delete_alias(alias))

    def run(self, call: Call[T], timeout: Optional[float] = None, request: Any = None) -> T:
        """Sends a call until it is answered, as the retry says, or until its deadline."""
        tries = Tries(self.retry, self.timeout if timeout is None else timeout, call.again)
        method = getattr(self._stubs[call.service], call.method)
        while True:
            left = tries.begin()
            try:
                message = call.request if request is None else request()
                return call.read(method(message, timeout=left, metadata=self._security.metadata()))
            except grpc.RpcError as e:
                error = self._security.error(e, self._address)
            if tries.count > 1 and call.done and error.reason == call.done:
                return call.read(None)
            time.sleep(tries.wait(error))

    def stream(self, call: Call[T], timeout: Optional[float] = None) -> Iterator[T]:
        """The answers of a call that has many."""
        method = getattr(self._stubs[call.service], call.method)
        answers = method(call.request, timeout=timeout, metadata=self._security.metadata())
        try:
            for answer in answers:
                yield call.read(answer)
        except grpc.RpcError as e:
            raise self._security.error(e, self._address) from None
        finally:
            answers.cancel()

    def open_session(self, requests: Iterator[Any]) -> Any:
        """One stream of a session."""
        return self._stubs["PredictionService"].Session(requests, metadata=self._security.metadata())

    def error(self, e: Any) -> errors.HindsightError:
        """The error of a call that gRPC ended with an error."""
        return self._security.error(e, self._address)


class Model:
    """A model of a server. Threads may share it."""

    def __init__(self, client: Client, id: str) -> None:
        self.client = client
        #: Its id, or an alias.
        self.id = id

    def __repr__(self) -> str:
        return f"Model({self.id!r})"

    def predict(
        self, x: Input, *, id: Optional[str] = None, label_ttl: Optional[Span] = None, remember: bool = True,
        timeout: Optional[float] = None,
    ) -> messages.Prediction:
        """Predicts for features, or for named inputs. remember=False: no label will come."""
        return self.client.run(_calls.predict(self.id, x, id, label_ttl, remember), timeout)

    def observe(
        self, x: Union[messages.Prediction, str, Input], label: Label, *, weight: Optional[float] = None,
        id: Optional[str] = None, timeout: Optional[float] = None,
    ) -> messages.Outcome:
        """Learns what happened, exactly once, and returns when it is durable.

        x is the prediction or its id. If there was no prediction, or if it has expired, x
        is the input, and id is the identity of the observation.
        """
        return self.client.run(_calls.observe(self.id, x, label, weight, id), timeout)

    def predict_batch(
        self, rows: Iterable[Input], *, ids: Optional[Sequence[str]] = None, label_ttl: Optional[Span] = None,
        remember: bool = True, timeout: Optional[float] = None,
    ) -> list[messages.Prediction]:
        """Predicts every row from one and the same state."""
        return self.client.run(_calls.predict_batch(self.id, rows, ids, label_ttl, remember), timeout)

    def observe_batch(
        self, rows: Iterable[Any], labels: Iterable[Label], *, weights: Optional[Iterable[float]] = None,
        ids: Optional[Iterable[str]] = None, timeout: Optional[float] = None,
    ) -> list[messages.Outcome]:
        """Learns the rows in their order, all or none. A row is what observe takes."""
        return self.client.run(_calls.observe_batch(self.id, rows, labels, weights, ids), timeout)

    def session(self, in_flight: int = 256) -> Session:
        """A stream of calls, of which so many may wait for their answers."""
        return Session(self.client, self.id, in_flight)

    def predict_frame(self, frame: pandas.DataFrame, *, remember: bool = False, batch: int = 1024) -> pandas.DataFrame:
        """Predicts the rows of a DataFrame; see hindsight.frames."""
        from hindsight import frames

        return frames.predict(self, frame, remember=remember, batch=batch)

    def learn_frame(
        self, frame: pandas.DataFrame, label: Union[str, Sequence[str]], *, weight: Optional[str] = None,
        id: Optional[str] = None, run: Optional[str] = None, batch: int = 256,
    ) -> pandas.DataFrame:
        """Learns the rows of a DataFrame in their order; see hindsight.frames."""
        from hindsight import frames

        return frames.learn(self, frame, label, weight=weight, id=id, run=run, batch=batch)

    def get(self) -> messages.ModelInfo:
        """What the model is."""
        return self.client.run(_calls.get(self.id))

    def stats(self, *, effective_dimension: bool = False, hindsight_path: bool = False) -> messages.ModelStats:
        """How the model is doing: losses, regret, certificate. See the API for what has to be asked for."""
        return self.client.run(_calls.stats(self.id, effective_dimension, hindsight_path))

    def history(self) -> messages.History:
        """How the model did over its life."""
        return self.client.run(_calls.history(self.id))

    def watch(
        self, *, max_outcomes_per_second: Optional[float] = None, stats_interval: Optional[Span] = None
    ) -> Iterator[messages.Event]:
        """What the model learns, as it learns it, without end."""
        return self.client.stream(_calls.watch(self.id, max_outcomes_per_second, stats_interval))

    def compare(self) -> list[messages.Comparison]:
        """How the model and those that follow it did on the same observations."""
        return self.client.run(_calls.compare(self.id))

    def update(
        self,
        *,
        display_name: Union[str, Unchanged] = UNCHANGED,
        labels: Union[Mapping[str, str], Unchanged] = UNCHANGED,
        annotations: Union[Mapping[str, str], Unchanged] = UNCHANGED,
        label_ttl: Union[Span, None, Unchanged] = UNCHANGED,
        max_pending_labels: Union[int, None, Unchanged] = UNCHANGED,
        etag: str = "",
    ) -> messages.ModelInfo:
        """Changes what may change of a model. None takes the default of the server again."""
        return self.client.run(_calls.update(
            self.id, etag, False, display_name=display_name, labels=labels, annotations=annotations,
            label_ttl=label_ttl, max_pending_labels=max_pending_labels,
        ))

    def delete(self, *, etag: str = "", purge: bool = False) -> Optional[messages.ModelInfo]:
        """Deletes the model. It is returned if undelete can bring it back."""
        return self.client.run(_calls.delete(self.id, etag, purge, validate_only=False))

    def snapshot(self) -> messages.Snapshot:
        """Writes a snapshot now."""
        return self.client.run(_calls.snapshot(self.id))

    def snapshots(self) -> list[messages.Snapshot]:
        """The snapshots that are kept, newest first."""
        return self.client.run(_calls.snapshots(self.id))

    def restore(
        self, sequence: Optional[int] = None, *, time: Optional[datetime] = None, validate_only: bool = False
    ) -> messages.Restored:
        """Takes the model back to an earlier sequence, or to what it had learned at a time.

        One of the two is given. The time has an offset from UTC. validate_only: tells what
        would be undone, and restores nothing. It is sent once: see the documentation.
        """
        return self.client.run(_calls.restore(self.id, sequence, time, validate_only))

    def export(self, to: IO[bytes], *, without_ids: bool = False, timeout: float = 600.0) -> int:
        """Writes the model to a file and returns the number of bytes."""
        written = 0
        for chunk in self.client.stream(_calls.export(self.id, without_ids), timeout):
            to.write(chunk)
            written += len(chunk)
        return written


def pieces(source: Union[bytes, IO[bytes]]) -> Iterator[bytes]:
    """The bytes in pieces that fit into a message."""
    if isinstance(source, bytes):
        for begin in range(0, len(source), _CHUNK):
            yield source[begin : begin + _CHUNK]
        return
    while piece := source.read(_CHUNK):
        yield piece

"""The errors of the client.

Every error of a call is a HindsightError. Its class says what kind of error it is, its
reason says which one. The table of reasons is in docs/clients.md of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

import grpc

from hindsight._client import details_pb2
from hindsight.v1 import error_pb2

_DOMAIN = "hindsight"
_TRAILER = "grpc-status-details-bin"


@dataclass(frozen=True)
class Violation:
    """One wrong field of a request."""

    #: Its path, such as rows[2].features[0].
    field: str
    #: What came and what was expected.
    description: str
    #: The reason, as in HindsightError.
    reason: str


class HindsightError(Exception):
    """A call that failed."""

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        metadata: Optional[Mapping[str, str]] = None,
        violations: tuple[Violation, ...] = (),
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        #: The message, for people.
        self.message = message
        #: The code of gRPC.
        self.code = code
        #: The reason, for programs, such as MODEL_NOT_FOUND; empty if no server answered.
        self.reason = reason
        #: Further facts, such as field, got and want.
        self.metadata: dict[str, str] = dict(metadata or {})
        #: The wrong fields of the request.
        self.violations = violations
        #: After how many seconds the same call may succeed, if the server says so.
        self.retry_after = retry_after
        #: How often the call was sent.
        self.tries = 1

    @property
    def retryable(self) -> bool:
        """Reports whether the same call, with the same ids, may succeed later."""
        return self.retry_after is not None

    def __str__(self) -> str:
        notes = [self.reason or self.code.name]
        if self.tries > 1:
            notes.append(f"sent {self.tries} times")
        text = f"{self.message} ({', '.join(notes)})"
        for v in self.violations:
            if f"{v.field}: {v.description}" not in self.message:
                text += f"; {v.field}: {v.description}"
        return text

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(kind: type[HindsightError], message: str, state: dict[str, Any]) -> HindsightError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class InvalidArgument(HindsightError):
    """The request is wrong: see violations. The same call fails again."""


class InvalidSpec(InvalidArgument):
    """The spec is wrong."""


class NotFound(HindsightError):
    """Something that the request names does not exist."""


class ModelNotFound(NotFound):
    """No model has this id."""


class PredictionNotFound(NotFound):
    """The prediction has expired, or never existed.

    Observe its input, with the id of the prediction as the id of the observation.
    """


class AliasNotFound(NotFound):
    """No alias has this name."""


class SnapshotNotFound(NotFound):
    """The log does not reach this sequence from any snapshot."""


class AlreadyExists(HindsightError):
    """The id has other content."""


class ModelExists(AlreadyExists):
    """A model with this id has another spec."""


class AliasExists(AlreadyExists):
    """An alias has this id, so that no model can have it."""


class ObservationConflict(AlreadyExists):
    """The id was used with another input or label. Nothing has changed."""


class FailedPrecondition(HindsightError):
    """The state of the model does not allow the call."""


class ModelFollows(FailedPrecondition):
    """The model learns from the model that it follows: observe the followed model."""


class ModelHasAliases(FailedPrecondition):
    """An alias names the model: set it to another model first, or delete it."""


class Aborted(HindsightError):
    """The model or the alias has changed since it was read: read it again."""


class EtagMismatch(Aborted):
    """The model was changed since its etag was read."""


class AliasMismatch(Aborted):
    """The alias does not name the expected model."""


class LimitReached(HindsightError):
    """A limit of the server or of the model is reached. Waiting does not help."""


class Overloaded(HindsightError):
    """The server has too much to do, or too many predictions are pending. Try again later."""


class Unavailable(HindsightError):
    """The server cannot do the call now."""


class Unreachable(Unavailable):
    """No server answers."""

    #: The server of hindsight.local has ended, or the process is a fork: no try can succeed.
    ended = False

    @property
    def retryable(self) -> bool:
        return not self.ended


class StorageFailed(Unavailable):
    """The server could not write its log. The model predicts, and learns nothing more."""


class NotOwner(Unavailable):
    """No server of the cluster took the call: nothing has changed. Try again."""


class OutcomeUnknown(Unavailable):
    """The observation may be learned or not. Send it again under its id."""


class DeadlineExceeded(HindsightError):
    """The deadline has passed. An observation may be learned nevertheless."""


class StateCorrupt(HindsightError):
    """What is stored of the model is damaged, and no good snapshot is left."""


class Unimplemented(HindsightError):
    """The server does not know this call: it is older than the client."""


class PermissionDenied(HindsightError):
    """The caller may not do this."""


class Unauthenticated(PermissionDenied):
    """The server does not know who calls: the token is missing, wrong, expired or revoked."""


class Internal(HindsightError):
    """The server has a defect. Its log says more."""


_Code = grpc.StatusCode
_BY_CODE: dict[grpc.StatusCode, type[HindsightError]] = {
    _Code.INVALID_ARGUMENT: InvalidArgument,
    _Code.OUT_OF_RANGE: InvalidArgument,
    _Code.NOT_FOUND: NotFound,
    _Code.ALREADY_EXISTS: AlreadyExists,
    _Code.FAILED_PRECONDITION: FailedPrecondition,
    _Code.ABORTED: Aborted,
    _Code.RESOURCE_EXHAUSTED: LimitReached,
    _Code.UNAVAILABLE: Unavailable,
    _Code.DEADLINE_EXCEEDED: DeadlineExceeded,
    _Code.DATA_LOSS: StateCorrupt,
    _Code.UNIMPLEMENTED: Unimplemented,
    _Code.PERMISSION_DENIED: PermissionDenied,
    _Code.UNAUTHENTICATED: Unauthenticated,
    _Code.INTERNAL: Internal,
}
_BY_REASON: dict[int, type[HindsightError]] = {
    error_pb2.INVALID_SPEC: InvalidSpec,
    error_pb2.MODEL_NOT_FOUND: ModelNotFound,
    error_pb2.PREDICTION_NOT_FOUND: PredictionNotFound,
    error_pb2.ALIAS_NOT_FOUND: AliasNotFound,
    error_pb2.SNAPSHOT_NOT_FOUND: SnapshotNotFound,
    error_pb2.MODEL_EXISTS: ModelExists,
    error_pb2.ALIAS_EXISTS: AliasExists,
    error_pb2.MODEL_FOLLOWS: ModelFollows,
    error_pb2.MODEL_HAS_ALIASES: ModelHasAliases,
    error_pb2.ETAG_MISMATCH: EtagMismatch,
    error_pb2.ALIAS_MISMATCH: AliasMismatch,
    error_pb2.OBSERVATION_CONFLICT: ObservationConflict,
    error_pb2.OVERLOADED: Overloaded,
    error_pb2.PENDING_LIMIT: Overloaded,
    error_pb2.WATCHER_LIMIT: Overloaded,
    error_pb2.STORAGE_FAILED: StorageFailed,
    error_pb2.OUTCOME_UNKNOWN: OutcomeUnknown,
    error_pb2.NOT_OWNER: NotOwner,
    error_pb2.STATE_CORRUPT: StateCorrupt,
}


def of_call(error: Any, address: str) -> HindsightError:
    """The error of a call that gRPC ended with an error."""
    for key, value in error.trailing_metadata() or ():
        if key == _TRAILER:
            return of_status(details_pb2.Status.FromString(value))
    code = error.code()
    message = error.details() or code.name
    if code is _Code.UNAVAILABLE:
        return Unreachable(f"no server answers at {address}: {message}", code=code)
    return _class(code, "", None)(message, code=code)


def of_status(status: Any) -> HindsightError:
    """The error of a google.rpc.Status."""
    code = next((c for c in _Code if c.value[0] == status.code), _Code.UNKNOWN)
    info = _detail(status, details_pb2.ErrorInfo)
    retry = _detail(status, details_pb2.RetryInfo)
    bad = _detail(status, details_pb2.BadRequest)
    reason = info.reason if info is not None and info.domain == _DOMAIN else ""
    retry_after = retry.retry_delay.ToTimedelta().total_seconds() if retry is not None else None
    return _class(code, reason, retry_after)(
        status.message,
        code=code,
        reason=reason,
        metadata=dict(info.metadata) if info is not None else None,
        violations=tuple(Violation(v.field, v.description, v.reason) for v in bad.field_violations) if bad is not None else (),
        retry_after=retry_after,
    )


def _class(code: grpc.StatusCode, reason: str, retry_after: Optional[float]) -> type[HindsightError]:
    number = dict(error_pb2.ErrorReason.items()).get(reason)
    if number in _BY_REASON:
        return _BY_REASON[number]
    if code is _Code.RESOURCE_EXHAUSTED and retry_after is not None:
        return Overloaded
    return _BY_CODE.get(code, HindsightError)


def _detail(status: Any, kind: Any) -> Any:
    """The detail of a kind, or None. Kinds are known by the last part of their name."""
    name = "google.rpc." + kind.DESCRIPTOR.name
    for detail in status.details:
        if detail.type_url.rsplit("/", 1)[-1] == name:
            return kind.FromString(detail.value)
    return None

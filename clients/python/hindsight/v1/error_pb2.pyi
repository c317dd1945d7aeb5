from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

ALIAS_EXISTS: ErrorReason
ALIAS_LIMIT: ErrorReason
ALIAS_MISMATCH: ErrorReason
ALIAS_NOT_FOUND: ErrorReason
BATCH_TOO_LARGE: ErrorReason
BODY_INCOMPLETE: ErrorReason
CERTIFICATE_UNKNOWN: ErrorReason
CLASS_LIMIT: ErrorReason
CONCURRENCY_LIMIT: ErrorReason
CROSS_ORIGIN: ErrorReason
DESCRIPTOR: _descriptor.FileDescriptor
DIMENSION_MISMATCH: ErrorReason
ERROR_REASON_UNSPECIFIED: ErrorReason
ETAG_MISMATCH: ErrorReason
FEATURE_OUT_OF_RANGE: ErrorReason
INPUT_TOO_LARGE: ErrorReason
INPUT_TYPE: ErrorReason
INVALID_CLASS: ErrorReason
INVALID_ID: ErrorReason
INVALID_JSON: ErrorReason
INVALID_PARAMETER: ErrorReason
INVALID_PATH: ErrorReason
INVALID_REQUEST: ErrorReason
INVALID_SPEC: ErrorReason
LABEL_KIND: ErrorReason
LABEL_MISSING: ErrorReason
LABEL_OUT_OF_RANGE: ErrorReason
METHOD_NOT_ALLOWED: ErrorReason
MISSING_INPUT: ErrorReason
MODEL_EXISTS: ErrorReason
MODEL_FOLLOWS: ErrorReason
MODEL_HAS_ALIASES: ErrorReason
MODEL_LIMIT: ErrorReason
MODEL_NOT_FOUND: ErrorReason
MODEL_OUT_OF_SCOPE: ErrorReason
NOT_FINITE: ErrorReason
NOT_OWNER: ErrorReason
NO_CLUSTER: ErrorReason
OBSERVATION_CONFLICT: ErrorReason
OBSERVATION_LIMIT: ErrorReason
OUTCOME_UNKNOWN: ErrorReason
OVERLOADED: ErrorReason
PENDING_LIMIT: ErrorReason
PREDICTION_NOT_FOUND: ErrorReason
RATE_LIMIT: ErrorReason
REQUEST_TOO_LARGE: ErrorReason
ROLE_TOO_LOW: ErrorReason
ROUTE_NOT_FOUND: ErrorReason
SERVER_NOT_FOUND: ErrorReason
SERVER_STATE: ErrorReason
SESSION_LIMIT: ErrorReason
SHUTTING_DOWN: ErrorReason
SNAPSHOT_NOT_FOUND: ErrorReason
SPEC_TOO_LARGE: ErrorReason
STATE_CORRUPT: ErrorReason
STORAGE_FAILED: ErrorReason
TOKEN_EXPIRED: ErrorReason
TOKEN_INVALID: ErrorReason
TOKEN_MISSING: ErrorReason
UNKNOWN_INPUT: ErrorReason
UNSUPPORTED_MEDIA_TYPE: ErrorReason
WATCHER_LIMIT: ErrorReason
WEIGHT_OUT_OF_RANGE: ErrorReason

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

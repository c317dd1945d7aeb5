from hindsight._google import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from hindsight.v1 import access_pb2 as _access_pb2
from hindsight.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FamilyPart(_message.Message):
    __slots__ = ["contributions", "family", "keys", "weights"]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    contributions: _containers.RepeatedScalarFieldContainer[float]
    family: str
    keys: _containers.RepeatedCompositeFieldContainer[KeyPart]
    weights: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, family: _Optional[str] = ..., weights: _Optional[_Iterable[float]] = ..., contributions: _Optional[_Iterable[float]] = ..., keys: _Optional[_Iterable[_Union[KeyPart, _Mapping]]] = ...) -> None: ...

class Interval(_message.Message):
    __slots__ = ["coverage", "lower", "lowers", "upper", "uppers"]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    LOWERS_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPERS_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    coverage: float
    lower: float
    lowers: _containers.RepeatedScalarFieldContainer[float]
    upper: float
    uppers: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, coverage: _Optional[float] = ..., lower: _Optional[float] = ..., upper: _Optional[float] = ..., lowers: _Optional[_Iterable[float]] = ..., uppers: _Optional[_Iterable[float]] = ...) -> None: ...

class KeyPart(_message.Message):
    __slots__ = ["contributions", "input"]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    contributions: _containers.RepeatedScalarFieldContainer[float]
    input: str
    def __init__(self, input: _Optional[str] = ..., contributions: _Optional[_Iterable[float]] = ...) -> None: ...

class Labels(_message.Message):
    __slots__ = ["values"]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class ObserveBatchRequest(_message.Message):
    __slots__ = ["model", "observations"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    model: str
    observations: _containers.RepeatedCompositeFieldContainer[ObserveRequest]
    def __init__(self, model: _Optional[str] = ..., observations: _Optional[_Iterable[_Union[ObserveRequest, _Mapping]]] = ...) -> None: ...

class ObserveBatchResponse(_message.Message):
    __slots__ = ["outcomes"]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ["features", "inputs", "label", "labels", "model", "observation_id", "prediction_id", "weight"]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_ID_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_ID_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedScalarFieldContainer[float]
    inputs: _struct_pb2.Struct
    label: float
    labels: Labels
    model: str
    observation_id: str
    prediction_id: str
    weight: float
    def __init__(self, model: _Optional[str] = ..., prediction_id: _Optional[str] = ..., features: _Optional[_Iterable[float]] = ..., label: _Optional[float] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., weight: _Optional[float] = ..., observation_id: _Optional[str] = ..., inputs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., **kwargs) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ["outcome"]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ["duplicate", "loss", "model", "prediction", "predictions", "recent_loss", "recent_skill", "regret", "sequence", "served_class", "served_loss", "served_prediction", "served_predictions", "set_aside"]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    RECENT_LOSS_FIELD_NUMBER: _ClassVar[int]
    RECENT_SKILL_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SERVED_CLASS_FIELD_NUMBER: _ClassVar[int]
    SERVED_LOSS_FIELD_NUMBER: _ClassVar[int]
    SERVED_PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    SERVED_PREDICTION_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    duplicate: bool
    loss: float
    model: str
    prediction: float
    predictions: _containers.RepeatedScalarFieldContainer[float]
    recent_loss: float
    recent_skill: float
    regret: float
    sequence: int
    served_class: str
    served_loss: float
    served_prediction: float
    served_predictions: _containers.RepeatedScalarFieldContainer[float]
    set_aside: bool
    def __init__(self, sequence: _Optional[int] = ..., prediction: _Optional[float] = ..., loss: _Optional[float] = ..., served_prediction: _Optional[float] = ..., served_loss: _Optional[float] = ..., regret: _Optional[float] = ..., duplicate: bool = ..., predictions: _Optional[_Iterable[float]] = ..., served_predictions: _Optional[_Iterable[float]] = ..., recent_loss: _Optional[float] = ..., recent_skill: _Optional[float] = ..., served_class: _Optional[str] = ..., model: _Optional[str] = ..., set_aside: bool = ..., **kwargs) -> None: ...

class PredictBatchRequest(_message.Message):
    __slots__ = ["alternatives", "horizon", "inputs", "label_ttl", "max_staleness", "min_sequence", "model", "prediction_ids", "remember", "rows"]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    LABEL_TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_STALENESS_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_IDS_FIELD_NUMBER: _ClassVar[int]
    REMEMBER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    alternatives: bool
    horizon: int
    inputs: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    label_ttl: _duration_pb2.Duration
    max_staleness: _duration_pb2.Duration
    min_sequence: int
    model: str
    prediction_ids: _containers.RepeatedScalarFieldContainer[str]
    remember: bool
    rows: _containers.RepeatedCompositeFieldContainer[_spec_pb2.Row]
    def __init__(self, model: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[_spec_pb2.Row, _Mapping]]] = ..., prediction_ids: _Optional[_Iterable[str]] = ..., label_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., remember: bool = ..., inputs: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., min_sequence: _Optional[int] = ..., max_staleness: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., horizon: _Optional[int] = ..., alternatives: bool = ...) -> None: ...

class PredictBatchResponse(_message.Message):
    __slots__ = ["predictions"]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    predictions: _containers.RepeatedCompositeFieldContainer[Prediction]
    def __init__(self, predictions: _Optional[_Iterable[_Union[Prediction, _Mapping]]] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ["explain", "features", "horizon", "inputs", "label_ttl", "max_staleness", "min_sequence", "model", "prediction_id", "remember"]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    LABEL_TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_STALENESS_FIELD_NUMBER: _ClassVar[int]
    MIN_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_ID_FIELD_NUMBER: _ClassVar[int]
    REMEMBER_FIELD_NUMBER: _ClassVar[int]
    explain: bool
    features: _containers.RepeatedScalarFieldContainer[float]
    horizon: int
    inputs: _struct_pb2.Struct
    label_ttl: _duration_pb2.Duration
    max_staleness: _duration_pb2.Duration
    min_sequence: int
    model: str
    prediction_id: str
    remember: bool
    def __init__(self, model: _Optional[str] = ..., features: _Optional[_Iterable[float]] = ..., prediction_id: _Optional[str] = ..., label_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., remember: bool = ..., inputs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., explain: bool = ..., min_sequence: _Optional[int] = ..., max_staleness: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., horizon: _Optional[int] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ["prediction"]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    prediction: Prediction
    def __init__(self, prediction: _Optional[_Union[Prediction, _Mapping]] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ["explanation", "horizon", "intervals", "leverage", "model", "new_class_probability", "parametric_value", "parametric_values", "prediction_id", "probability", "ready", "scores", "standard_error", "standard_errors", "state_sequence", "value", "values"]
    class ScoresEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CLASS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    LEVERAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NEW_CLASS_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_VALUES_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_VALUE_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERRORS_FIELD_NUMBER: _ClassVar[int]
    STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    STATE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    explanation: _containers.RepeatedCompositeFieldContainer[FamilyPart]
    horizon: int
    intervals: _containers.RepeatedCompositeFieldContainer[Interval]
    leverage: float
    model: str
    new_class_probability: float
    parametric_value: float
    parametric_values: _containers.RepeatedScalarFieldContainer[float]
    prediction_id: str
    probability: float
    ready: bool
    scores: _containers.ScalarMap[str, float]
    standard_error: float
    standard_errors: _containers.RepeatedScalarFieldContainer[float]
    state_sequence: int
    value: float
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, prediction_id: _Optional[str] = ..., value: _Optional[float] = ..., values: _Optional[_Iterable[float]] = ..., scores: _Optional[_Mapping[str, float]] = ..., standard_error: _Optional[float] = ..., leverage: _Optional[float] = ..., state_sequence: _Optional[int] = ..., standard_errors: _Optional[_Iterable[float]] = ..., intervals: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., probability: _Optional[float] = ..., parametric_value: _Optional[float] = ..., parametric_values: _Optional[_Iterable[float]] = ..., model: _Optional[str] = ..., explanation: _Optional[_Iterable[_Union[FamilyPart, _Mapping]]] = ..., new_class_probability: _Optional[float] = ..., ready: bool = ..., horizon: _Optional[int] = ..., **kwargs) -> None: ...

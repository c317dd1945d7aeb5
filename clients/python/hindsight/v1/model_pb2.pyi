from hindsight._google import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hindsight.v1 import access_pb2 as _access_pb2
from hindsight.v1 import prediction_pb2 as _prediction_pb2
from hindsight.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Alias(_message.Message):
    __slots__ = ["alias", "model", "previous_model", "update_time"]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MODEL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    alias: str
    model: str
    previous_model: str
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, alias: _Optional[str] = ..., model: _Optional[str] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., previous_model: _Optional[str] = ...) -> None: ...

class Category(_message.Message):
    __slots__ = ["name", "observations"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    observations: int
    def __init__(self, name: _Optional[str] = ..., observations: _Optional[int] = ...) -> None: ...

class ClassCounts(_message.Message):
    __slots__ = ["errors", "expected", "observed", "predicted"]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    errors: int
    expected: float
    observed: int
    predicted: int
    def __init__(self, observed: _Optional[int] = ..., errors: _Optional[int] = ..., predicted: _Optional[int] = ..., expected: _Optional[float] = ..., **kwargs) -> None: ...

class ClassFigures(_message.Message):
    __slots__ = ["brier_score", "error_rate", "last_class_error_rate", "log_loss", "majority_error_rate", "skill"]
    BRIER_SCORE_FIELD_NUMBER: _ClassVar[int]
    ERROR_RATE_FIELD_NUMBER: _ClassVar[int]
    LAST_CLASS_ERROR_RATE_FIELD_NUMBER: _ClassVar[int]
    LOG_LOSS_FIELD_NUMBER: _ClassVar[int]
    MAJORITY_ERROR_RATE_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    brier_score: float
    error_rate: float
    last_class_error_rate: float
    log_loss: float
    majority_error_rate: float
    skill: float
    def __init__(self, error_rate: _Optional[float] = ..., log_loss: _Optional[float] = ..., brier_score: _Optional[float] = ..., majority_error_rate: _Optional[float] = ..., last_class_error_rate: _Optional[float] = ..., skill: _Optional[float] = ...) -> None: ...

class ClassPerformance(_message.Message):
    __slots__ = ["observations", "prequential", "served"]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    PREQUENTIAL_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    observations: float
    prequential: ClassFigures
    served: ClassFigures
    def __init__(self, observations: _Optional[float] = ..., prequential: _Optional[_Union[ClassFigures, _Mapping]] = ..., served: _Optional[_Union[ClassFigures, _Mapping]] = ...) -> None: ...

class ClassRanking(_message.Message):
    __slots__ = ["auc", "f1", "precision", "recall", "threshold"]
    AUC_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    F1_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    auc: float
    f1: float
    precision: float
    recall: float
    threshold: float
    def __init__(self, auc: _Optional[float] = ..., f1: _Optional[float] = ..., precision: _Optional[float] = ..., recall: _Optional[float] = ..., threshold: _Optional[float] = ..., **kwargs) -> None: ...

class ClassStats(_message.Message):
    __slots__ = ["classes", "performance", "ranking", "recent", "reliability"]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    RANKING_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    RELIABILITY_FIELD_NUMBER: _ClassVar[int]
    classes: _containers.RepeatedCompositeFieldContainer[ClassCounts]
    performance: ClassPerformance
    ranking: ClassRanking
    recent: ClassPerformance
    reliability: _containers.RepeatedCompositeFieldContainer[ReliabilityBin]
    def __init__(self, performance: _Optional[_Union[ClassPerformance, _Mapping]] = ..., recent: _Optional[_Union[ClassPerformance, _Mapping]] = ..., reliability: _Optional[_Iterable[_Union[ReliabilityBin, _Mapping]]] = ..., classes: _Optional[_Iterable[_Union[ClassCounts, _Mapping]]] = ..., ranking: _Optional[_Union[ClassRanking, _Mapping]] = ...) -> None: ...

class CompareModelsRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class CompareModelsResponse(_message.Message):
    __slots__ = ["comparisons"]
    COMPARISONS_FIELD_NUMBER: _ClassVar[int]
    comparisons: _containers.RepeatedCompositeFieldContainer[Comparison]
    def __init__(self, comparisons: _Optional[_Iterable[_Union[Comparison, _Mapping]]] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ["behind", "classes", "difference", "followed", "followed_classes", "learner", "model", "observations", "performance"]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_CLASSES_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    behind: int
    classes: ClassPerformance
    difference: LossDifference
    followed: Performance
    followed_classes: ClassPerformance
    learner: str
    model: str
    observations: int
    performance: Performance
    def __init__(self, model: _Optional[str] = ..., learner: _Optional[str] = ..., observations: _Optional[int] = ..., behind: _Optional[int] = ..., performance: _Optional[_Union[Performance, _Mapping]] = ..., followed: _Optional[_Union[Performance, _Mapping]] = ..., classes: _Optional[_Union[ClassPerformance, _Mapping]] = ..., followed_classes: _Optional[_Union[ClassPerformance, _Mapping]] = ..., difference: _Optional[_Union[LossDifference, _Mapping]] = ...) -> None: ...

class CreateModelRequest(_message.Message):
    __slots__ = ["annotations", "display_name", "follows", "id", "label_ttl", "labels", "max_pending_labels", "spec", "validate_only"]
    class AnnotationsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_LABELS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    annotations: _containers.ScalarMap[str, str]
    display_name: str
    follows: str
    id: str
    label_ttl: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    max_pending_labels: int
    spec: _spec_pb2.ModelSpec
    validate_only: bool
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ..., display_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., label_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_pending_labels: _Optional[int] = ..., follows: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class CreateModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class DeleteAliasRequest(_message.Message):
    __slots__ = ["alias"]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    alias: str
    def __init__(self, alias: _Optional[str] = ...) -> None: ...

class DeleteAliasResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class DeleteModelRequest(_message.Message):
    __slots__ = ["etag", "model", "purge", "validate_only"]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    etag: str
    model: str
    purge: bool
    validate_only: bool
    def __init__(self, model: _Optional[str] = ..., etag: _Optional[str] = ..., purge: bool = ..., validate_only: bool = ...) -> None: ...

class DeleteModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class Drift(_message.Message):
    __slots__ = ["detected", "last_change_sequence", "loss_after", "loss_before", "rises"]
    DETECTED_FIELD_NUMBER: _ClassVar[int]
    LAST_CHANGE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOSS_AFTER_FIELD_NUMBER: _ClassVar[int]
    LOSS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    RISES_FIELD_NUMBER: _ClassVar[int]
    detected: int
    last_change_sequence: int
    loss_after: float
    loss_before: float
    rises: int
    def __init__(self, detected: _Optional[int] = ..., last_change_sequence: _Optional[int] = ..., loss_before: _Optional[float] = ..., loss_after: _Optional[float] = ..., rises: _Optional[int] = ...) -> None: ...

class DriftMark(_message.Message):
    __slots__ = ["rise", "sequence", "time"]
    RISE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    rise: bool
    sequence: int
    time: _timestamp_pb2.Timestamp
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., rise: bool = ...) -> None: ...

class Expert(_message.Message):
    __slots__ = ["awake", "loss_sum", "name", "weight"]
    AWAKE_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    awake: bool
    loss_sum: float
    name: str
    weight: float
    def __init__(self, name: _Optional[str] = ..., loss_sum: _Optional[float] = ..., weight: _Optional[float] = ..., awake: bool = ...) -> None: ...

class ExportModelRequest(_message.Message):
    __slots__ = ["model", "without_ids"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_IDS_FIELD_NUMBER: _ClassVar[int]
    model: str
    without_ids: bool
    def __init__(self, model: _Optional[str] = ..., without_ids: bool = ...) -> None: ...

class ExportModelResponse(_message.Message):
    __slots__ = ["chunk"]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class FeatureWeight(_message.Message):
    __slots__ = ["effect", "feature", "output", "weight"]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    effect: float
    feature: str
    output: int
    weight: float
    def __init__(self, feature: _Optional[str] = ..., weight: _Optional[float] = ..., effect: _Optional[float] = ..., output: _Optional[int] = ...) -> None: ...

class GetModelHistoryRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetModelHistoryResponse(_message.Message):
    __slots__ = ["drifts", "experts", "points"]
    DRIFTS_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    drifts: _containers.RepeatedCompositeFieldContainer[DriftMark]
    experts: _containers.RepeatedScalarFieldContainer[str]
    points: _containers.RepeatedCompositeFieldContainer[HistoryPoint]
    def __init__(self, points: _Optional[_Iterable[_Union[HistoryPoint, _Mapping]]] = ..., experts: _Optional[_Iterable[str]] = ..., drifts: _Optional[_Iterable[_Union[DriftMark, _Mapping]]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class GetModelStatsRequest(_message.Message):
    __slots__ = ["include_effective_dimension", "include_hindsight_path", "include_importances", "include_recent_regret", "include_regret_rkhs", "model"]
    INCLUDE_EFFECTIVE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_HINDSIGHT_PATH_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_IMPORTANCES_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RECENT_REGRET_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_REGRET_RKHS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    include_effective_dimension: bool
    include_hindsight_path: bool
    include_importances: bool
    include_recent_regret: bool
    include_regret_rkhs: bool
    model: str
    def __init__(self, model: _Optional[str] = ..., include_effective_dimension: bool = ..., include_hindsight_path: bool = ..., include_importances: bool = ..., include_regret_rkhs: bool = ..., include_recent_regret: bool = ...) -> None: ...

class GetModelStatsResponse(_message.Message):
    __slots__ = ["stats"]
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: ModelStats
    def __init__(self, stats: _Optional[_Union[ModelStats, _Mapping]] = ...) -> None: ...

class HistoryPoint(_message.Message):
    __slots__ = ["classes", "dictionary", "expert_weights", "performance", "realised", "regret", "regret_bound", "sequence", "time"]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    EXPERT_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    REALISED_FIELD_NUMBER: _ClassVar[int]
    REGRET_BOUND_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    classes: ClassPerformance
    dictionary: int
    expert_weights: _containers.RepeatedScalarFieldContainer[float]
    performance: Performance
    realised: _containers.RepeatedScalarFieldContainer[float]
    regret: float
    regret_bound: float
    sequence: int
    time: _timestamp_pb2.Timestamp
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., performance: _Optional[_Union[Performance, _Mapping]] = ..., classes: _Optional[_Union[ClassPerformance, _Mapping]] = ..., regret: _Optional[float] = ..., regret_bound: _Optional[float] = ..., dictionary: _Optional[int] = ..., expert_weights: _Optional[_Iterable[float]] = ..., realised: _Optional[_Iterable[float]] = ...) -> None: ...

class ImportModelRequest(_message.Message):
    __slots__ = ["chunk", "id"]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    id: str
    def __init__(self, id: _Optional[str] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class ImportModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class InferSpecRequest(_message.Message):
    __slots__ = ["classes", "csv", "spec", "target", "texts", "values"]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    CSV_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    classes: bool
    csv: str
    spec: _spec_pb2.ModelSpec
    target: str
    texts: _containers.RepeatedScalarFieldContainer[str]
    values: bool
    def __init__(self, csv: _Optional[str] = ..., target: _Optional[str] = ..., classes: bool = ..., values: bool = ..., spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class InferSpecResponse(_message.Message):
    __slots__ = ["columns", "notes", "rows", "spec", "values"]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[InferredColumn]
    notes: _containers.RepeatedScalarFieldContainer[str]
    rows: int
    spec: _spec_pb2.ModelSpec
    values: str
    def __init__(self, spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ..., columns: _Optional[_Iterable[_Union[InferredColumn, _Mapping]]] = ..., rows: _Optional[int] = ..., values: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class InferredColumn(_message.Message):
    __slots__ = ["kind", "name", "notice", "reason"]
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    KIND_BOOLEAN: InferredColumn.Kind
    KIND_CATEGORY: InferredColumn.Kind
    KIND_CLASS: InferredColumn.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_LABEL: InferredColumn.Kind
    KIND_LEFT_OUT: InferredColumn.Kind
    KIND_NUMBER: InferredColumn.Kind
    KIND_TEXT: InferredColumn.Kind
    KIND_TIME: InferredColumn.Kind
    KIND_UNSPECIFIED: InferredColumn.Kind
    KIND_VECTOR: InferredColumn.Kind
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: InferredColumn.Kind
    name: str
    notice: bool
    reason: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[InferredColumn.Kind, str]] = ..., reason: _Optional[str] = ..., notice: bool = ...) -> None: ...

class InputImportance(_message.Message):
    __slots__ = ["gain", "input", "permutation"]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PERMUTATION_FIELD_NUMBER: _ClassVar[int]
    gain: float
    input: str
    permutation: float
    def __init__(self, input: _Optional[str] = ..., gain: _Optional[float] = ..., permutation: _Optional[float] = ...) -> None: ...

class InputStats(_message.Message):
    __slots__ = ["categories", "deviation", "high", "keys", "low", "mean", "missing", "name", "outside", "outside_share", "seen", "shift"]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_SHARE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    categories: int
    deviation: float
    high: float
    keys: int
    low: float
    mean: float
    missing: int
    name: str
    outside: int
    outside_share: float
    seen: int
    shift: float
    def __init__(self, name: _Optional[str] = ..., seen: _Optional[int] = ..., missing: _Optional[int] = ..., categories: _Optional[int] = ..., outside: _Optional[int] = ..., outside_share: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., mean: _Optional[float] = ..., deviation: _Optional[float] = ..., shift: _Optional[float] = ..., keys: _Optional[int] = ...) -> None: ...

class IntervalStats(_message.Message):
    __slots__ = ["coverage", "least", "mean_score", "mean_width", "observations", "output", "realised", "recent"]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    MEAN_SCORE_FIELD_NUMBER: _ClassVar[int]
    MEAN_WIDTH_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REALISED_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    coverage: float
    least: float
    mean_score: float
    mean_width: float
    observations: int
    output: int
    realised: float
    recent: float
    def __init__(self, coverage: _Optional[float] = ..., output: _Optional[int] = ..., observations: _Optional[int] = ..., realised: _Optional[float] = ..., recent: _Optional[float] = ..., least: _Optional[float] = ..., mean_width: _Optional[float] = ..., mean_score: _Optional[float] = ...) -> None: ...

class KeyEffect(_message.Message):
    __slots__ = ["category", "effect", "input", "missing", "observations", "output"]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    category: str
    effect: float
    input: str
    missing: bool
    observations: float
    output: int
    def __init__(self, input: _Optional[str] = ..., category: _Optional[str] = ..., missing: bool = ..., effect: _Optional[float] = ..., observations: _Optional[float] = ..., output: _Optional[int] = ...) -> None: ...

class LabelGateStats(_message.Message):
    __slots__ = ["last_set_aside", "last_start", "regret_beside", "set_aside", "set_aside_loss", "share", "starts"]
    LAST_SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    LAST_START_FIELD_NUMBER: _ClassVar[int]
    REGRET_BESIDE_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_LOSS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    last_set_aside: int
    last_start: int
    regret_beside: float
    set_aside: int
    set_aside_loss: float
    share: float
    starts: int
    def __init__(self, set_aside: _Optional[int] = ..., share: _Optional[float] = ..., last_set_aside: _Optional[int] = ..., set_aside_loss: _Optional[float] = ..., regret_beside: _Optional[float] = ..., starts: _Optional[int] = ..., last_start: _Optional[int] = ...) -> None: ...

class LearnedInput(_message.Message):
    __slots__ = ["categories", "deviation", "features", "mean", "name"]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    categories: _containers.RepeatedCompositeFieldContainer[Category]
    deviation: float
    features: _containers.RepeatedScalarFieldContainer[str]
    mean: float
    name: str
    def __init__(self, name: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., categories: _Optional[_Iterable[_Union[Category, _Mapping]]] = ..., mean: _Optional[float] = ..., deviation: _Optional[float] = ...) -> None: ...

class Learner(_message.Message):
    __slots__ = ["description", "fields", "name"]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    description: str
    fields: _containers.RepeatedCompositeFieldContainer[LearnerField]
    name: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[LearnerField, _Mapping]]] = ...) -> None: ...

class LearnerField(_message.Message):
    __slots__ = ["description", "name", "repeated", "type", "values"]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    description: str
    name: str
    repeated: bool
    type: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., repeated: bool = ..., values: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ...) -> None: ...

class ListAliasesRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListAliasesResponse(_message.Message):
    __slots__ = ["aliases"]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    aliases: _containers.RepeatedCompositeFieldContainer[Alias]
    def __init__(self, aliases: _Optional[_Iterable[_Union[Alias, _Mapping]]] = ...) -> None: ...

class ListLearnersRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListLearnersResponse(_message.Message):
    __slots__ = ["learners"]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    learners: _containers.RepeatedCompositeFieldContainer[Learner]
    def __init__(self, learners: _Optional[_Iterable[_Union[Learner, _Mapping]]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ["contains", "include_summary", "labels", "learner", "order_by", "page_size", "page_token", "prefix", "show_deleted"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    contains: str
    include_summary: bool
    labels: _containers.ScalarMap[str, str]
    learner: str
    order_by: str
    page_size: int
    page_token: str
    prefix: str
    show_deleted: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., prefix: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., learner: _Optional[str] = ..., show_deleted: bool = ..., contains: _Optional[str] = ..., order_by: _Optional[str] = ..., include_summary: bool = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ["models", "next_page_token", "total_size"]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    next_page_token: str
    total_size: int
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ["snapshots"]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class LogLossStats(_message.Message):
    __slots__ = ["experts", "loss_sum", "regret", "regret_bound"]
    EXPERTS_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    REGRET_BOUND_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    experts: _containers.RepeatedCompositeFieldContainer[Expert]
    loss_sum: float
    regret: float
    regret_bound: float
    def __init__(self, loss_sum: _Optional[float] = ..., regret: _Optional[float] = ..., regret_bound: _Optional[float] = ..., experts: _Optional[_Iterable[_Union[Expert, _Mapping]]] = ...) -> None: ...

class LossDifference(_message.Message):
    __slots__ = ["confidence", "lower", "mean", "observations", "upper"]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    confidence: float
    lower: float
    mean: float
    observations: int
    upper: float
    def __init__(self, mean: _Optional[float] = ..., lower: _Optional[float] = ..., upper: _Optional[float] = ..., confidence: _Optional[float] = ..., observations: _Optional[int] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ["aliases", "annotations", "classes", "create_time", "delete_time", "display_name", "etag", "follows", "id", "inputs", "label_ttl", "labels", "learner", "max_pending_labels", "purge_time", "sequence", "spec", "summary", "update_time"]
    class AnnotationsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_TTL_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_LABELS_FIELD_NUMBER: _ClassVar[int]
    PURGE_TIME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    aliases: _containers.RepeatedScalarFieldContainer[str]
    annotations: _containers.ScalarMap[str, str]
    classes: _containers.RepeatedScalarFieldContainer[str]
    create_time: _timestamp_pb2.Timestamp
    delete_time: _timestamp_pb2.Timestamp
    display_name: str
    etag: str
    follows: str
    id: str
    inputs: _containers.RepeatedCompositeFieldContainer[LearnedInput]
    label_ttl: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    learner: str
    max_pending_labels: int
    purge_time: _timestamp_pb2.Timestamp
    sequence: int
    spec: _spec_pb2.ModelSpec
    summary: ModelSummary
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., sequence: _Optional[int] = ..., learner: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[LearnedInput, _Mapping]]] = ..., classes: _Optional[_Iterable[str]] = ..., display_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., label_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_pending_labels: _Optional[int] = ..., etag: _Optional[str] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., delete_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., purge_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., follows: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., summary: _Optional[_Union[ModelSummary, _Mapping]] = ...) -> None: ...

class ModelStats(_message.Message):
    __slots__ = ["certificate", "certificate_ok", "certified", "classes", "dictionary", "drift", "durability", "effective_dimension", "effects", "experts", "families", "features", "hindsight_loss", "hindsight_path", "importances", "inputs", "intervals", "label_bound", "label_gate", "learner", "log_determinant", "log_loss", "loss_sum", "mean_loss", "model", "observations", "parametric_share", "pending_labels", "performance", "recent", "recent_regret", "recoding", "regret", "regret_bound", "regret_rkhs", "regret_unpenalized", "served_certificate", "served_loss_sum", "served_observations", "served_regret", "snapshot_sequence", "state_bytes", "state_digest", "switching_regret", "weights"]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_OK_FIELD_NUMBER: _ClassVar[int]
    CERTIFIED_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_FIELD_NUMBER: _ClassVar[int]
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    HINDSIGHT_LOSS_FIELD_NUMBER: _ClassVar[int]
    HINDSIGHT_PATH_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    LABEL_BOUND_FIELD_NUMBER: _ClassVar[int]
    LABEL_GATE_FIELD_NUMBER: _ClassVar[int]
    LEARNER_FIELD_NUMBER: _ClassVar[int]
    LOG_DETERMINANT_FIELD_NUMBER: _ClassVar[int]
    LOG_LOSS_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    MEAN_LOSS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_SHARE_FIELD_NUMBER: _ClassVar[int]
    PENDING_LABELS_FIELD_NUMBER: _ClassVar[int]
    PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    RECENT_REGRET_FIELD_NUMBER: _ClassVar[int]
    RECODING_FIELD_NUMBER: _ClassVar[int]
    REGRET_BOUND_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    REGRET_RKHS_FIELD_NUMBER: _ClassVar[int]
    REGRET_UNPENALIZED_FIELD_NUMBER: _ClassVar[int]
    SERVED_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SERVED_LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    SERVED_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    SERVED_REGRET_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SWITCHING_REGRET_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    certificate: float
    certificate_ok: bool
    certified: bool
    classes: ClassStats
    dictionary: int
    drift: Drift
    durability: str
    effective_dimension: float
    effects: _containers.RepeatedCompositeFieldContainer[KeyEffect]
    experts: _containers.RepeatedCompositeFieldContainer[Expert]
    families: _containers.RepeatedCompositeFieldContainer[_prediction_pb2.FamilyPart]
    features: int
    hindsight_loss: float
    hindsight_path: _containers.RepeatedScalarFieldContainer[float]
    importances: _containers.RepeatedCompositeFieldContainer[InputImportance]
    inputs: _containers.RepeatedCompositeFieldContainer[InputStats]
    intervals: _containers.RepeatedCompositeFieldContainer[IntervalStats]
    label_bound: float
    label_gate: LabelGateStats
    learner: str
    log_determinant: float
    log_loss: LogLossStats
    loss_sum: float
    mean_loss: float
    model: str
    observations: int
    parametric_share: float
    pending_labels: int
    performance: Performance
    recent: Performance
    recent_regret: _containers.RepeatedCompositeFieldContainer[RecentRegret]
    recoding: float
    regret: float
    regret_bound: float
    regret_rkhs: float
    regret_unpenalized: float
    served_certificate: float
    served_loss_sum: float
    served_observations: int
    served_regret: float
    snapshot_sequence: int
    state_bytes: int
    state_digest: str
    switching_regret: _containers.RepeatedScalarFieldContainer[float]
    weights: _containers.RepeatedCompositeFieldContainer[FeatureWeight]
    def __init__(self, model: _Optional[str] = ..., learner: _Optional[str] = ..., observations: _Optional[int] = ..., loss_sum: _Optional[float] = ..., mean_loss: _Optional[float] = ..., hindsight_loss: _Optional[float] = ..., regret: _Optional[float] = ..., regret_unpenalized: _Optional[float] = ..., regret_bound: _Optional[float] = ..., certificate: _Optional[float] = ..., certificate_ok: bool = ..., certified: bool = ..., log_determinant: _Optional[float] = ..., label_bound: _Optional[float] = ..., features: _Optional[int] = ..., effective_dimension: _Optional[float] = ..., dictionary: _Optional[int] = ..., served_observations: _Optional[int] = ..., served_loss_sum: _Optional[float] = ..., pending_labels: _Optional[int] = ..., state_bytes: _Optional[int] = ..., state_digest: _Optional[str] = ..., durability: _Optional[str] = ..., snapshot_sequence: _Optional[int] = ..., performance: _Optional[_Union[Performance, _Mapping]] = ..., recent: _Optional[_Union[Performance, _Mapping]] = ..., served_regret: _Optional[float] = ..., intervals: _Optional[_Iterable[_Union[IntervalStats, _Mapping]]] = ..., drift: _Optional[_Union[Drift, _Mapping]] = ..., experts: _Optional[_Iterable[_Union[Expert, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[InputStats, _Mapping]]] = ..., classes: _Optional[_Union[ClassStats, _Mapping]] = ..., weights: _Optional[_Iterable[_Union[FeatureWeight, _Mapping]]] = ..., hindsight_path: _Optional[_Iterable[float]] = ..., parametric_share: _Optional[float] = ..., label_gate: _Optional[_Union[LabelGateStats, _Mapping]] = ..., families: _Optional[_Iterable[_Union[_prediction_pb2.FamilyPart, _Mapping]]] = ..., importances: _Optional[_Iterable[_Union[InputImportance, _Mapping]]] = ..., effects: _Optional[_Iterable[_Union[KeyEffect, _Mapping]]] = ..., log_loss: _Optional[_Union[LogLossStats, _Mapping]] = ..., served_certificate: _Optional[float] = ..., regret_rkhs: _Optional[float] = ..., switching_regret: _Optional[_Iterable[float]] = ..., recoding: _Optional[float] = ..., recent_regret: _Optional[_Iterable[_Union[RecentRegret, _Mapping]]] = ...) -> None: ...

class ModelSummary(_message.Message):
    __slots__ = ["observation_rate", "observe_time", "recent", "recent_classes", "regret", "state"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    OBSERVATION_RATE_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_TIME_FIELD_NUMBER: _ClassVar[int]
    RECENT_CLASSES_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    STATE_DELETED: ModelSummary.State
    STATE_FAILED: ModelSummary.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_HIBERNATED: ModelSummary.State
    STATE_LOADED: ModelSummary.State
    STATE_READ_ONLY: ModelSummary.State
    STATE_UNSPECIFIED: ModelSummary.State
    observation_rate: float
    observe_time: _timestamp_pb2.Timestamp
    recent: Performance
    recent_classes: ClassPerformance
    regret: float
    state: ModelSummary.State
    def __init__(self, state: _Optional[_Union[ModelSummary.State, str]] = ..., recent: _Optional[_Union[Performance, _Mapping]] = ..., recent_classes: _Optional[_Union[ClassPerformance, _Mapping]] = ..., regret: _Optional[float] = ..., observation_rate: _Optional[float] = ..., observe_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class OutcomeEvent(_message.Message):
    __slots__ = ["features", "inputs", "intervals", "labels", "omitted", "outcome", "time"]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedScalarFieldContainer[float]
    inputs: _struct_pb2.Struct
    intervals: _containers.RepeatedCompositeFieldContainer[_prediction_pb2.Interval]
    labels: _containers.RepeatedScalarFieldContainer[float]
    omitted: int
    outcome: _prediction_pb2.Outcome
    time: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[_prediction_pb2.Outcome, _Mapping]] = ..., labels: _Optional[_Iterable[float]] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., omitted: _Optional[int] = ..., intervals: _Optional[_Iterable[_Union[_prediction_pb2.Interval, _Mapping]]] = ..., features: _Optional[_Iterable[float]] = ..., inputs: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., **kwargs) -> None: ...

class Performance(_message.Message):
    __slots__ = ["observations", "prequential", "served"]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    PREQUENTIAL_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    observations: float
    prequential: PerformanceFigures
    served: PerformanceFigures
    def __init__(self, observations: _Optional[float] = ..., prequential: _Optional[_Union[PerformanceFigures, _Mapping]] = ..., served: _Optional[_Union[PerformanceFigures, _Mapping]] = ...) -> None: ...

class PerformanceFigures(_message.Message):
    __slots__ = ["last_label_loss", "mae", "mean_loss", "rmse", "running_mean_loss", "skill"]
    LAST_LABEL_LOSS_FIELD_NUMBER: _ClassVar[int]
    MAE_FIELD_NUMBER: _ClassVar[int]
    MEAN_LOSS_FIELD_NUMBER: _ClassVar[int]
    RMSE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_MEAN_LOSS_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    last_label_loss: float
    mae: float
    mean_loss: float
    rmse: float
    running_mean_loss: float
    skill: float
    def __init__(self, mean_loss: _Optional[float] = ..., running_mean_loss: _Optional[float] = ..., last_label_loss: _Optional[float] = ..., skill: _Optional[float] = ..., rmse: _Optional[float] = ..., mae: _Optional[float] = ...) -> None: ...

class RecentRegret(_message.Message):
    __slots__ = ["gap", "hindsight_loss", "loss_sum", "observations", "regret"]
    GAP_FIELD_NUMBER: _ClassVar[int]
    HINDSIGHT_LOSS_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    gap: float
    hindsight_loss: float
    loss_sum: float
    observations: int
    regret: float
    def __init__(self, observations: _Optional[int] = ..., loss_sum: _Optional[float] = ..., hindsight_loss: _Optional[float] = ..., regret: _Optional[float] = ..., gap: _Optional[float] = ...) -> None: ...

class ReliabilityBin(_message.Message):
    __slots__ = ["found", "high", "low", "members", "predicted"]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    found: float
    high: float
    low: float
    members: int
    predicted: float
    def __init__(self, low: _Optional[float] = ..., high: _Optional[float] = ..., members: _Optional[int] = ..., predicted: _Optional[float] = ..., found: _Optional[float] = ...) -> None: ...

class RestoreModelRequest(_message.Message):
    __slots__ = ["model", "sequence", "time", "validate_only"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    model: str
    sequence: int
    time: _timestamp_pb2.Timestamp
    validate_only: bool
    def __init__(self, model: _Optional[str] = ..., sequence: _Optional[int] = ..., validate_only: bool = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RestoreModelResponse(_message.Message):
    __slots__ = ["model", "undone"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    model: Model
    undone: int
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ..., undone: _Optional[int] = ...) -> None: ...

class SetAliasRequest(_message.Message):
    __slots__ = ["alias", "expected_model", "model"]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    alias: str
    expected_model: str
    model: str
    def __init__(self, alias: _Optional[str] = ..., model: _Optional[str] = ..., expected_model: _Optional[str] = ...) -> None: ...

class SetAliasResponse(_message.Message):
    __slots__ = ["alias"]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    alias: Alias
    def __init__(self, alias: _Optional[_Union[Alias, _Mapping]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ["bytes", "create_time", "sequence", "state_digest"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    create_time: _timestamp_pb2.Timestamp
    sequence: int
    state_digest: str
    def __init__(self, sequence: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., bytes: _Optional[int] = ..., state_digest: _Optional[str] = ...) -> None: ...

class SnapshotModelRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class SnapshotModelResponse(_message.Message):
    __slots__ = ["snapshot"]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class UndeleteModelRequest(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class UndeleteModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class UpdateModelRequest(_message.Message):
    __slots__ = ["model", "update_mask", "validate_only"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    model: Model
    update_mask: _field_mask_pb2.FieldMask
    validate_only: bool
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class UpdateModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class ValidateSpecRequest(_message.Message):
    __slots__ = ["spec"]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _spec_pb2.ModelSpec
    def __init__(self, spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ...) -> None: ...

class ValidateSpecResponse(_message.Message):
    __slots__ = ["features", "observe_flops", "predict_flops", "spec", "state_bytes"]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FLOPS_FIELD_NUMBER: _ClassVar[int]
    PREDICT_FLOPS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    features: int
    observe_flops: int
    predict_flops: int
    spec: _spec_pb2.ModelSpec
    state_bytes: int
    def __init__(self, spec: _Optional[_Union[_spec_pb2.ModelSpec, _Mapping]] = ..., features: _Optional[int] = ..., state_bytes: _Optional[int] = ..., predict_flops: _Optional[int] = ..., observe_flops: _Optional[int] = ...) -> None: ...

class WatchModelRequest(_message.Message):
    __slots__ = ["include_inputs", "max_outcomes_per_second", "model", "stats_interval"]
    INCLUDE_INPUTS_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTCOMES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STATS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    include_inputs: bool
    max_outcomes_per_second: float
    model: str
    stats_interval: _duration_pb2.Duration
    def __init__(self, model: _Optional[str] = ..., max_outcomes_per_second: _Optional[float] = ..., stats_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., include_inputs: bool = ...) -> None: ...

class WatchModelResponse(_message.Message):
    __slots__ = ["history", "outcome", "stats"]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    history: HistoryPoint
    outcome: OutcomeEvent
    stats: ModelStats
    def __init__(self, outcome: _Optional[_Union[OutcomeEvent, _Mapping]] = ..., stats: _Optional[_Union[ModelStats, _Mapping]] = ..., history: _Optional[_Union[HistoryPoint, _Mapping]] = ...) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
LOSS_HINGE: Loss
LOSS_LOGISTIC: Loss
LOSS_SQUARED: Loss
LOSS_SQUARED_HINGE: Loss
LOSS_UNSPECIFIED: Loss

class AdaRaker(_message.Message):
    __slots__ = ["base_interval", "frequencies", "kernels", "loss", "restart", "step", "step_cap", "track_regret", "track_switches", "weight_step"]
    class Restart(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BASE_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    RESTART_COLD: AdaRaker.Restart
    RESTART_FIELD_NUMBER: _ClassVar[int]
    RESTART_UNSPECIFIED: AdaRaker.Restart
    RESTART_WARM: AdaRaker.Restart
    STEP_CAP_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TRACK_REGRET_FIELD_NUMBER: _ClassVar[int]
    TRACK_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_STEP_FIELD_NUMBER: _ClassVar[int]
    base_interval: int
    frequencies: int
    kernels: _containers.RepeatedCompositeFieldContainer[Kernel]
    loss: Loss
    restart: AdaRaker.Restart
    step: float
    step_cap: float
    track_regret: bool
    track_switches: bool
    weight_step: float
    def __init__(self, kernels: _Optional[_Iterable[_Union[Kernel, _Mapping]]] = ..., frequencies: _Optional[int] = ..., loss: _Optional[_Union[Loss, str]] = ..., step: _Optional[float] = ..., step_cap: _Optional[float] = ..., weight_step: _Optional[float] = ..., base_interval: _Optional[int] = ..., restart: _Optional[_Union[AdaRaker.Restart, str]] = ..., track_regret: bool = ..., track_switches: bool = ..., **kwargs) -> None: ...

class Auto(_message.Message):
    __slots__ = ["frequencies", "lags", "max_keys", "max_microseconds"]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    LAGS_FIELD_NUMBER: _ClassVar[int]
    MAX_KEYS_FIELD_NUMBER: _ClassVar[int]
    MAX_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    frequencies: int
    lags: int
    max_keys: int
    max_microseconds: float
    def __init__(self, lags: _Optional[int] = ..., frequencies: _Optional[int] = ..., max_microseconds: _Optional[float] = ..., max_keys: _Optional[int] = ...) -> None: ...

class BooleanInput(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class CategoricalInput(_message.Message):
    __slots__ = ["hash_buckets", "joint_scale", "key", "max_categories"]
    HASH_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    JOINT_SCALE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    hash_buckets: int
    joint_scale: bool
    key: bool
    max_categories: int
    def __init__(self, max_categories: _Optional[int] = ..., hash_buckets: _Optional[int] = ..., joint_scale: bool = ..., key: bool = ...) -> None: ...

class Classes(_message.Message):
    __slots__ = ["max_classes"]
    MAX_CLASSES_FIELD_NUMBER: _ClassVar[int]
    max_classes: int
    def __init__(self, max_classes: _Optional[int] = ...) -> None: ...

class Clip(_message.Message):
    __slots__ = ["high", "low"]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    high: float
    low: float
    def __init__(self, low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class FixedScaling(_message.Message):
    __slots__ = ["label_offset", "label_scale", "offset", "scale"]
    LABEL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LABEL_SCALE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    label_offset: _containers.RepeatedScalarFieldContainer[float]
    label_scale: float
    offset: _containers.RepeatedScalarFieldContainer[float]
    scale: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, offset: _Optional[_Iterable[float]] = ..., scale: _Optional[_Iterable[float]] = ..., label_offset: _Optional[_Iterable[float]] = ..., label_scale: _Optional[float] = ...) -> None: ...

class Fogd(_message.Message):
    __slots__ = ["average", "decay", "frequencies", "kernel", "loss", "step", "track_regret"]
    AVERAGE_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TRACK_REGRET_FIELD_NUMBER: _ClassVar[int]
    average: bool
    decay: float
    frequencies: int
    kernel: Kernel
    loss: Loss
    step: float
    track_regret: bool
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., frequencies: _Optional[int] = ..., loss: _Optional[_Union[Loss, str]] = ..., step: _Optional[float] = ..., track_regret: bool = ..., decay: _Optional[float] = ..., average: bool = ..., **kwargs) -> None: ...

class FourierAwv(_message.Message):
    __slots__ = ["forgetting", "frequencies", "kernel", "lambdas", "orthogonal"]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    ORTHOGONAL_FIELD_NUMBER: _ClassVar[int]
    forgetting: float
    frequencies: int
    kernel: Kernel
    lambdas: _containers.RepeatedScalarFieldContainer[float]
    orthogonal: bool
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., frequencies: _Optional[int] = ..., orthogonal: bool = ..., forgetting: _Optional[float] = ..., lambdas: _Optional[_Iterable[float]] = ..., **kwargs) -> None: ...

class FourierKons(_message.Message):
    __slots__ = ["alpha", "clip", "eta", "frequencies", "kernel", "loss", "orthogonal", "range", "track_regret"]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    ORTHOGONAL_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    TRACK_REGRET_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    clip: float
    eta: float
    frequencies: int
    kernel: Kernel
    loss: Loss
    orthogonal: bool
    range: _containers.RepeatedScalarFieldContainer[float]
    track_regret: bool
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., frequencies: _Optional[int] = ..., orthogonal: bool = ..., loss: _Optional[_Union[Loss, str]] = ..., range: _Optional[_Iterable[float]] = ..., clip: _Optional[float] = ..., eta: _Optional[float] = ..., alpha: _Optional[float] = ..., track_regret: bool = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ["boolean", "categorical", "missing", "name", "numeric", "text", "time", "vector"]
    class Missing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    CATEGORICAL_FIELD_NUMBER: _ClassVar[int]
    MISSING_CATEGORY: Input.Missing
    MISSING_FIELD_NUMBER: _ClassVar[int]
    MISSING_INDICATOR: Input.Missing
    MISSING_REJECT: Input.Missing
    MISSING_UNSPECIFIED: Input.Missing
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMERIC_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    boolean: BooleanInput
    categorical: CategoricalInput
    missing: Input.Missing
    name: str
    numeric: NumericInput
    text: TextInput
    time: TimeInput
    vector: VectorInput
    def __init__(self, name: _Optional[str] = ..., numeric: _Optional[_Union[NumericInput, _Mapping]] = ..., boolean: _Optional[_Union[BooleanInput, _Mapping]] = ..., categorical: _Optional[_Union[CategoricalInput, _Mapping]] = ..., time: _Optional[_Union[TimeInput, _Mapping]] = ..., vector: _Optional[_Union[VectorInput, _Mapping]] = ..., text: _Optional[_Union[TextInput, _Mapping]] = ..., missing: _Optional[_Union[Input.Missing, str]] = ...) -> None: ...

class Kernel(_message.Message):
    __slots__ = ["alpha", "degree", "kind", "offset", "sigma"]
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    DEGREE_FIELD_NUMBER: _ClassVar[int]
    KIND_CAUCHY: Kernel.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_GAUSSIAN: Kernel.Kind
    KIND_LAPLACIAN: Kernel.Kind
    KIND_LINEAR: Kernel.Kind
    KIND_MATERN_12: Kernel.Kind
    KIND_MATERN_32: Kernel.Kind
    KIND_MATERN_52: Kernel.Kind
    KIND_POLYNOMIAL: Kernel.Kind
    KIND_RATIONAL_QUADRATIC: Kernel.Kind
    KIND_UNSPECIFIED: Kernel.Kind
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    degree: int
    kind: Kernel.Kind
    offset: float
    sigma: float
    def __init__(self, kind: _Optional[_Union[Kernel.Kind, str]] = ..., sigma: _Optional[float] = ..., alpha: _Optional[float] = ..., degree: _Optional[int] = ..., offset: _Optional[float] = ...) -> None: ...

class KernelAwv(_message.Message):
    __slots__ = ["kernel", "max_observations"]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    MAX_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    kernel: Kernel
    max_observations: int
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., max_observations: _Optional[int] = ..., **kwargs) -> None: ...

class Kons(_message.Message):
    __slots__ = ["alpha", "beta", "clip", "epsilon", "eta", "gamma", "kernel", "loss", "max_observations", "range"]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    MAX_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    beta: float
    clip: float
    epsilon: float
    eta: float
    gamma: float
    kernel: Kernel
    loss: Loss
    max_observations: int
    range: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., loss: _Optional[_Union[Loss, str]] = ..., range: _Optional[_Iterable[float]] = ..., clip: _Optional[float] = ..., eta: _Optional[float] = ..., alpha: _Optional[float] = ..., gamma: _Optional[float] = ..., epsilon: _Optional[float] = ..., beta: _Optional[float] = ..., max_observations: _Optional[int] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ["integer", "max", "min", "unit"]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    integer: bool
    max: float
    min: float
    unit: str
    def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ..., integer: bool = ..., unit: _Optional[str] = ...) -> None: ...

class LinearAwv(_message.Message):
    __slots__ = ["forgetting", "lambdas"]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    forgetting: float
    lambdas: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, forgetting: _Optional[float] = ..., lambdas: _Optional[_Iterable[float]] = ..., **kwargs) -> None: ...

class ModelSpec(_message.Message):
    __slots__ = ["ada_raker", "auto", "classes", "coverage", "dimension", "fogd", "fourier_awv", "fourier_kons", "inputs", "kernel_awv", "kons", "label", "label_gate", "linear_awv", "outputs", "pkawv_nystrom", "pkawv_taylor", "pros_n_kons", "raker", "rlsc", "scaling", "seed", "semiparametric_awv"]
    ADA_RAKER_FIELD_NUMBER: _ClassVar[int]
    AUTO_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    FOGD_FIELD_NUMBER: _ClassVar[int]
    FOURIER_AWV_FIELD_NUMBER: _ClassVar[int]
    FOURIER_KONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_AWV_FIELD_NUMBER: _ClassVar[int]
    KONS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    LABEL_GATE_FIELD_NUMBER: _ClassVar[int]
    LINEAR_AWV_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    PKAWV_NYSTROM_FIELD_NUMBER: _ClassVar[int]
    PKAWV_TAYLOR_FIELD_NUMBER: _ClassVar[int]
    PROS_N_KONS_FIELD_NUMBER: _ClassVar[int]
    RAKER_FIELD_NUMBER: _ClassVar[int]
    RLSC_FIELD_NUMBER: _ClassVar[int]
    SCALING_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SEMIPARAMETRIC_AWV_FIELD_NUMBER: _ClassVar[int]
    ada_raker: AdaRaker
    auto: Auto
    classes: Classes
    coverage: _containers.RepeatedScalarFieldContainer[float]
    dimension: int
    fogd: Fogd
    fourier_awv: FourierAwv
    fourier_kons: FourierKons
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    kernel_awv: KernelAwv
    kons: Kons
    label: Label
    label_gate: str
    linear_awv: LinearAwv
    outputs: int
    pkawv_nystrom: PkawvNystrom
    pkawv_taylor: PkawvTaylor
    pros_n_kons: ProsNKons
    raker: Raker
    rlsc: Rlsc
    scaling: Scaling
    seed: int
    semiparametric_awv: SemiparametricAwv
    def __init__(self, dimension: _Optional[int] = ..., outputs: _Optional[int] = ..., seed: _Optional[int] = ..., scaling: _Optional[_Union[Scaling, _Mapping]] = ..., coverage: _Optional[_Iterable[float]] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., classes: _Optional[_Union[Classes, _Mapping]] = ..., label_gate: _Optional[str] = ..., label: _Optional[_Union[Label, _Mapping]] = ..., pkawv_taylor: _Optional[_Union[PkawvTaylor, _Mapping]] = ..., pkawv_nystrom: _Optional[_Union[PkawvNystrom, _Mapping]] = ..., fourier_awv: _Optional[_Union[FourierAwv, _Mapping]] = ..., linear_awv: _Optional[_Union[LinearAwv, _Mapping]] = ..., kernel_awv: _Optional[_Union[KernelAwv, _Mapping]] = ..., raker: _Optional[_Union[Raker, _Mapping]] = ..., ada_raker: _Optional[_Union[AdaRaker, _Mapping]] = ..., fogd: _Optional[_Union[Fogd, _Mapping]] = ..., auto: _Optional[_Union[Auto, _Mapping]] = ..., rlsc: _Optional[_Union[Rlsc, _Mapping]] = ..., fourier_kons: _Optional[_Union[FourierKons, _Mapping]] = ..., pros_n_kons: _Optional[_Union[ProsNKons, _Mapping]] = ..., kons: _Optional[_Union[Kons, _Mapping]] = ..., semiparametric_awv: _Optional[_Union[SemiparametricAwv, _Mapping]] = ...) -> None: ...

class NoScaling(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class NumericInput(_message.Message):
    __slots__ = ["clip", "log1p", "unit"]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    LOG1P_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    clip: Clip
    log1p: bool
    unit: str
    def __init__(self, log1p: bool = ..., clip: _Optional[_Union[Clip, _Mapping]] = ..., unit: _Optional[str] = ...) -> None: ...

class PkawvNystrom(_message.Message):
    __slots__ = ["beta", "delta", "dictionary", "epsilon", "forgetting", "history", "history_window", "horizon", "kernel", "lambdas", "max_dictionary", "mix_sizes", "mu"]
    class History(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BETA_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FULL: PkawvNystrom.History
    HISTORY_NONE: PkawvNystrom.History
    HISTORY_UNSPECIFIED: PkawvNystrom.History
    HISTORY_WINDOW: PkawvNystrom.History
    HISTORY_WINDOW_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    MAX_DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    MIX_SIZES_FIELD_NUMBER: _ClassVar[int]
    MU_FIELD_NUMBER: _ClassVar[int]
    beta: float
    delta: float
    dictionary: _containers.RepeatedCompositeFieldContainer[Row]
    epsilon: float
    forgetting: float
    history: PkawvNystrom.History
    history_window: int
    horizon: int
    kernel: Kernel
    lambdas: _containers.RepeatedScalarFieldContainer[float]
    max_dictionary: int
    mix_sizes: bool
    mu: float
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., mu: _Optional[float] = ..., epsilon: _Optional[float] = ..., beta: _Optional[float] = ..., horizon: _Optional[int] = ..., delta: _Optional[float] = ..., max_dictionary: _Optional[int] = ..., history: _Optional[_Union[PkawvNystrom.History, str]] = ..., history_window: _Optional[int] = ..., dictionary: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., forgetting: _Optional[float] = ..., lambdas: _Optional[_Iterable[float]] = ..., mix_sizes: bool = ..., **kwargs) -> None: ...

class PkawvTaylor(_message.Message):
    __slots__ = ["degree", "forgetting", "lambdas", "max_features", "mix_degrees", "sigma"]
    DEGREE_FIELD_NUMBER: _ClassVar[int]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    MAX_FEATURES_FIELD_NUMBER: _ClassVar[int]
    MIX_DEGREES_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    degree: int
    forgetting: float
    lambdas: _containers.RepeatedScalarFieldContainer[float]
    max_features: int
    mix_degrees: bool
    sigma: float
    def __init__(self, sigma: _Optional[float] = ..., degree: _Optional[int] = ..., max_features: _Optional[int] = ..., forgetting: _Optional[float] = ..., lambdas: _Optional[_Iterable[float]] = ..., mix_degrees: bool = ..., **kwargs) -> None: ...

class ProsNKons(_message.Message):
    __slots__ = ["alpha", "beta", "clip", "dictionary", "epsilon", "eta", "growth", "kernel", "loss", "max_dictionary", "mu", "range", "track_regret"]
    class Growth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FIELD_NUMBER: _ClassVar[int]
    GROWTH_GROW: ProsNKons.Growth
    GROWTH_RESTART: ProsNKons.Growth
    GROWTH_UNSPECIFIED: ProsNKons.Growth
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    MAX_DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    MU_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    TRACK_REGRET_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    beta: float
    clip: float
    dictionary: _containers.RepeatedCompositeFieldContainer[Row]
    epsilon: float
    eta: float
    growth: ProsNKons.Growth
    kernel: Kernel
    loss: Loss
    max_dictionary: int
    mu: float
    range: _containers.RepeatedScalarFieldContainer[float]
    track_regret: bool
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., loss: _Optional[_Union[Loss, str]] = ..., range: _Optional[_Iterable[float]] = ..., clip: _Optional[float] = ..., eta: _Optional[float] = ..., alpha: _Optional[float] = ..., track_regret: bool = ..., mu: _Optional[float] = ..., epsilon: _Optional[float] = ..., beta: _Optional[float] = ..., max_dictionary: _Optional[int] = ..., dictionary: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., growth: _Optional[_Union[ProsNKons.Growth, str]] = ...) -> None: ...

class Raker(_message.Message):
    __slots__ = ["frequencies", "kernels", "loss", "step", "track_regret", "weight_step"]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TRACK_REGRET_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_STEP_FIELD_NUMBER: _ClassVar[int]
    frequencies: int
    kernels: _containers.RepeatedCompositeFieldContainer[Kernel]
    loss: Loss
    step: float
    track_regret: bool
    weight_step: float
    def __init__(self, kernels: _Optional[_Iterable[_Union[Kernel, _Mapping]]] = ..., frequencies: _Optional[int] = ..., loss: _Optional[_Union[Loss, str]] = ..., step: _Optional[float] = ..., weight_step: _Optional[float] = ..., track_regret: bool = ..., **kwargs) -> None: ...

class Rlsc(_message.Message):
    __slots__ = ["forgetting", "frequencies", "kernel", "lambdas", "recoding"]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    RECODING_FIELD_NUMBER: _ClassVar[int]
    forgetting: float
    frequencies: int
    kernel: Kernel
    lambdas: _containers.RepeatedScalarFieldContainer[float]
    recoding: float
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., frequencies: _Optional[int] = ..., recoding: _Optional[float] = ..., forgetting: _Optional[float] = ..., lambdas: _Optional[_Iterable[float]] = ..., **kwargs) -> None: ...

class Row(_message.Message):
    __slots__ = ["features"]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, features: _Optional[_Iterable[float]] = ...) -> None: ...

class RunningScaling(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Scaling(_message.Message):
    __slots__ = ["fixed", "none", "running", "warmup"]
    FIXED_FIELD_NUMBER: _ClassVar[int]
    NONE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    fixed: FixedScaling
    none: NoScaling
    running: RunningScaling
    warmup: WarmupScaling
    def __init__(self, fixed: _Optional[_Union[FixedScaling, _Mapping]] = ..., warmup: _Optional[_Union[WarmupScaling, _Mapping]] = ..., running: _Optional[_Union[RunningScaling, _Mapping]] = ..., none: _Optional[_Union[NoScaling, _Mapping]] = ...) -> None: ...

class SemiparametricAwv(_message.Message):
    __slots__ = ["forgetting", "frequencies", "kernel", "parametric", "parametric_inputs", "parametric_lambda", "shared_parameters", "stages"]
    FORGETTING_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_INPUTS_FIELD_NUMBER: _ClassVar[int]
    PARAMETRIC_LAMBDA_FIELD_NUMBER: _ClassVar[int]
    SHARED_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    forgetting: float
    frequencies: int
    kernel: Kernel
    parametric: _containers.RepeatedScalarFieldContainer[int]
    parametric_inputs: _containers.RepeatedScalarFieldContainer[str]
    parametric_lambda: float
    shared_parameters: bool
    stages: int
    def __init__(self, parametric: _Optional[_Iterable[int]] = ..., parametric_lambda: _Optional[float] = ..., kernel: _Optional[_Union[Kernel, _Mapping]] = ..., frequencies: _Optional[int] = ..., forgetting: _Optional[float] = ..., parametric_inputs: _Optional[_Iterable[str]] = ..., stages: _Optional[int] = ..., shared_parameters: bool = ..., **kwargs) -> None: ...

class TextInput(_message.Message):
    __slots__ = ["hash_buckets"]
    HASH_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    hash_buckets: int
    def __init__(self, hash_buckets: _Optional[int] = ...) -> None: ...

class TimeInput(_message.Message):
    __slots__ = ["cycles", "day_first", "trend"]
    class Cycle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CYCLES_FIELD_NUMBER: _ClassVar[int]
    CYCLE_DAY_OF_WEEK: TimeInput.Cycle
    CYCLE_DAY_OF_YEAR: TimeInput.Cycle
    CYCLE_HOUR_OF_DAY: TimeInput.Cycle
    CYCLE_UNSPECIFIED: TimeInput.Cycle
    DAY_FIRST_FIELD_NUMBER: _ClassVar[int]
    TREND_FIELD_NUMBER: _ClassVar[int]
    cycles: _containers.RepeatedScalarFieldContainer[TimeInput.Cycle]
    day_first: bool
    trend: bool
    def __init__(self, cycles: _Optional[_Iterable[_Union[TimeInput.Cycle, str]]] = ..., trend: bool = ..., day_first: bool = ...) -> None: ...

class VectorInput(_message.Message):
    __slots__ = ["length"]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: int
    def __init__(self, length: _Optional[int] = ...) -> None: ...

class WarmupScaling(_message.Message):
    __slots__ = ["labels", "observations"]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    labels: bool
    observations: int
    def __init__(self, observations: _Optional[int] = ..., labels: bool = ...) -> None: ...

class Loss(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

"""What the client answers: models. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from hindsight._values import described, enum_name, spec_dict
from hindsight.messages.performance import ClassPerformance, Performance
from hindsight.v1 import model_pb2


@dataclass(frozen=True)
class Category:
    """Category is a category of an input."""

    #: The text.
    name: str
    #: How often it was observed.
    observations: int

    @classmethod
    def of(cls, m: model_pb2.Category) -> Category:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            observations=m.observations,
        )


@dataclass(frozen=True)
class LearnedInput:
    """LearnedInput is what a model has learned of one named input."""

    #: Its name.
    name: str
    #: The names of its features, in order.
    features: tuple[str, ...]
    #: Its categories with a feature, by first appearance.
    categories: tuple[Category, ...]
    #: The mean of a number, list or boolean.
    mean: Optional[float]
    #: The standard deviation.
    deviation: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.LearnedInput) -> LearnedInput:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            features=tuple(m.features),
            categories=tuple(Category.of(e) for e in m.categories),
            mean=m.mean if m.HasField("mean") else None,
            deviation=m.deviation if m.HasField("deviation") else None,
        )


@dataclass(frozen=True)
class ModelSummary:
    """ModelSummary is a model's row in a list."""

    #: Where the model is.
    state: str
    #: The performance over the last 1000 to 1050 observations. It, the next two and observe_time
    #: are from the last time in memory since the start.
    recent: Optional[Performance]
    #: The same of a classifier.
    recent_classes: Optional[ClassPerformance]
    #: See ModelStats.
    regret: Optional[float]
    #: Observations per second over the last 60 to 70 s.
    observation_rate: float
    #: When its newest observation was learned. Absent without observations.
    observe_time: Optional[datetime]

    def __repr__(self) -> str:
        return described(
            self,
            {"regret": "prequential"},
        )

    @classmethod
    def of(cls, m: model_pb2.ModelSummary) -> ModelSummary:
        """Reads the message of the API."""
        return cls(
            state=enum_name(model_pb2.ModelSummary.State, m.state),
            recent=Performance.of(m.recent) if m.HasField("recent") else None,
            recent_classes=ClassPerformance.of(m.recent_classes) if m.HasField("recent_classes") else None,
            regret=m.regret if m.HasField("regret") else None,
            observation_rate=m.observation_rate,
            observe_time=m.observe_time.ToDatetime(timezone.utc) if m.HasField("observe_time") else None,
        )


@dataclass(frozen=True)
class ModelInfo:
    """ModelInfo is a named online learner."""

    #: Its id, [a-z0-9]([a-z0-9._-]{0,62}).
    id: str
    #: Its spec with every default filled in.
    spec: Optional[dict[str, Any]]
    #: When it was created.
    create_time: Optional[datetime]
    #: The number of observations learned or set aside.
    sequence: int
    #: The name of its learner, such as pkawv_taylor.
    learner: str
    #: What the model has learned of its named inputs, in order. GetModel only.
    inputs: tuple[LearnedInput, ...]
    #: The classes, in order of first appearance. GetModel only.
    classes: tuple[str, ...]
    #: A name for people, at most 63 characters. UpdateModel changes this and the next four.
    display_name: str
    #: For selection: at most 64; keys as ids.
    labels: dict[str, str]
    #: For the caller's notes: at most 64, 16 KiB together.
    annotations: dict[str, str]
    #: How long a prediction waits for its label by default. Absent: the server's default.
    label_ttl: Optional[timedelta]
    #: The most pending predictions. Absent: the server's limit.
    max_pending_labels: Optional[int]
    #: Changes with the five fields above and deletion.
    etag: str
    #: When the etag last changed.
    update_time: Optional[datetime]
    #: When it was deleted.
    delete_time: Optional[datetime]
    #: When a deleted model will be purged.
    purge_time: Optional[datetime]
    #: The model whose observations this one learns, exclusively. Following ends when that model
    #: is purged or restored to before what this one has learned, when this one cannot learn an
    #: observation or is a million behind, and when SetAlias moves an alias of that model to it.
    follows: str
    #: Its aliases. GetModel only.
    aliases: tuple[str, ...]
    #: Its summary, if ListModels was asked for it.
    summary: Optional[ModelSummary]

    @classmethod
    def of(cls, m: model_pb2.Model) -> ModelInfo:
        """Reads the message of the API."""
        return cls(
            id=m.id,
            spec=spec_dict(m.spec) if m.HasField("spec") else None,
            create_time=m.create_time.ToDatetime(timezone.utc) if m.HasField("create_time") else None,
            sequence=m.sequence,
            learner=m.learner,
            inputs=tuple(LearnedInput.of(e) for e in m.inputs),
            classes=tuple(m.classes),
            display_name=m.display_name,
            labels=dict(sorted(m.labels.items())),
            annotations=dict(sorted(m.annotations.items())),
            label_ttl=m.label_ttl.ToTimedelta() if m.HasField("label_ttl") else None,
            max_pending_labels=m.max_pending_labels if m.HasField("max_pending_labels") else None,
            etag=m.etag,
            update_time=m.update_time.ToDatetime(timezone.utc) if m.HasField("update_time") else None,
            delete_time=m.delete_time.ToDatetime(timezone.utc) if m.HasField("delete_time") else None,
            purge_time=m.purge_time.ToDatetime(timezone.utc) if m.HasField("purge_time") else None,
            follows=m.follows,
            aliases=tuple(m.aliases),
            summary=ModelSummary.of(m.summary) if m.HasField("summary") else None,
        )


@dataclass(frozen=True)
class SpecCost:
    """SpecCost answers ValidateSpec."""

    #: The spec with every default filled in.
    spec: Optional[dict[str, Any]]
    #: The number of features r.
    features: int
    #: Bytes of memory of the state.
    state_bytes: int
    #: Multiply-adds of one Predict.
    predict_flops: int
    #: Multiply-adds of one Observe.
    observe_flops: int

    @classmethod
    def of(cls, m: model_pb2.ValidateSpecResponse) -> SpecCost:
        """Reads the message of the API."""
        return cls(
            spec=spec_dict(m.spec) if m.HasField("spec") else None,
            features=m.features,
            state_bytes=m.state_bytes,
            predict_flops=m.predict_flops,
            observe_flops=m.observe_flops,
        )


@dataclass(frozen=True)
class LearnerField:
    """LearnerField describes a field of a learner's message."""

    #: Its name, such as lambda.
    name: str
    #: double, int32, int64, bool, string, enum, or the name of a message, such as Kernel.
    type: str
    #: The field is a list.
    repeated: bool
    #: The values of an enum, such as LOSS_SQUARED, or the kinds of a Kernel.
    values: tuple[str, ...]
    #: What the field is, and its default.
    description: str

    @classmethod
    def of(cls, m: model_pb2.LearnerField) -> LearnerField:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            type=m.type,
            repeated=m.repeated,
            values=tuple(m.values),
            description=m.description,
        )


@dataclass(frozen=True)
class Learner:
    """Learner describes a learner of a spec."""

    #: The field of ModelSpec that names it, such as linear_awv.
    name: str
    #: What it is.
    description: str
    #: The fields of its message.
    fields: tuple[LearnerField, ...]

    @classmethod
    def of(cls, m: model_pb2.Learner) -> Learner:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            description=m.description,
            fields=tuple(LearnerField.of(e) for e in m.fields),
        )


@dataclass(frozen=True)
class Snapshot:
    """Snapshot is a stored state of a model."""

    #: Its number of observations.
    sequence: int
    #: When it was written.
    create_time: Optional[datetime]
    #: Its size in bytes.
    bytes: int
    #: SHA-256 of the learner's state, hexadecimal.
    state_digest: str

    @classmethod
    def of(cls, m: model_pb2.Snapshot) -> Snapshot:
        """Reads the message of the API."""
        return cls(
            sequence=m.sequence,
            create_time=m.create_time.ToDatetime(timezone.utc) if m.HasField("create_time") else None,
            bytes=m.bytes,
            state_digest=m.state_digest,
        )


@dataclass(frozen=True)
class Restored:
    """Restored answers RestoreModel."""

    #: The restored model.
    model: Optional[ModelInfo]
    #: The number of undone observations.
    undone: int

    @classmethod
    def of(cls, m: model_pb2.RestoreModelResponse) -> Restored:
        """Reads the message of the API."""
        return cls(
            model=ModelInfo.of(m.model) if m.HasField("model") else None,
            undone=m.undone,
        )


@dataclass(frozen=True)
class Alias:
    """Alias is a name of a model."""

    #: The alias, with the syntax of ids. No model has the same id.
    alias: str
    #: The id of the model.
    model: str
    #: When it was set.
    update_time: Optional[datetime]
    #: The previous target. It learns the labels of its predictions.
    previous_model: str

    @classmethod
    def of(cls, m: model_pb2.Alias) -> Alias:
        """Reads the message of the API."""
        return cls(
            alias=m.alias,
            model=m.model,
            update_time=m.update_time.ToDatetime(timezone.utc) if m.HasField("update_time") else None,
            previous_model=m.previous_model,
        )

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
    """LearnedInput is what has been learned of one named input."""

    #: Its name.
    name: str
    #: The names of its features, in their order.
    features: tuple[str, ...]
    #: Its categories that have a feature, in the order of their first appearance.
    categories: tuple[Category, ...]
    #: The mean of the observed values of a number, a list or a boolean.
    mean: Optional[float]
    #: Their deviation.
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
    """ModelSummary is how a model is doing, in the few figures of a list."""

    #: What the server has of it: in memory, on disk alone, or read only.
    state: str
    #: The performance over the last 1000 observations, and up to 50 more, in the terms of
    #: Outcome.recent_loss. This and the next two are of the last time that the model was in
    #: memory, and absent if it was not since the server's start.
    recent: Optional[Performance]
    #: Of a classifier.
    recent_classes: Optional[ClassPerformance]
    #: See ModelStats.
    regret: Optional[float]
    #: Observations a second, over the last minute, or up to 10 s more.
    observation_rate: float

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
        )


@dataclass(frozen=True)
class Move:
    """Move says that another server has a model, or is to have it. The model that is moved learns
    nothing, remembers no predictions and is not restored, so that ExportModel gives all that it was
    told. Predict without remember goes on."""

    #: The gRPC address of the other server, as clients reach it. At most 300 bytes.
    address: str
    #: The other server has the model. Before that calls are refused with MODEL_MOVING, for a
    #: while; afterwards always with MODEL_MOVED.
    complete: bool

    @classmethod
    def of(cls, m: model_pb2.Move) -> Move:
        """Reads the message of the API."""
        return cls(
            address=m.address,
            complete=m.complete,
        )


@dataclass(frozen=True)
class ImportedState:
    """ImportedState is the state that a model was imported with."""

    #: How many observations it had learned.
    sequence: int
    #: SHA-256 of the state, in hexadecimal digits. See Snapshot.state_digest.
    state_digest: str

    @classmethod
    def of(cls, m: model_pb2.ImportedState) -> ImportedState:
        """Reads the message of the API."""
        return cls(
            sequence=m.sequence,
            state_digest=m.state_digest,
        )


@dataclass(frozen=True)
class ModelInfo:
    """ModelInfo is a named online learner."""

    #: Its id: [a-z0-9]([a-z0-9._-]{0,62}).
    id: str
    #: Its spec, every default filled in.
    spec: Optional[dict[str, Any]]
    #: When it was created.
    create_time: Optional[datetime]
    #: How many observations it has learned.
    sequence: int
    #: The name of its learner, such as pkawv_taylor.
    learner: str
    #: What has been learned of the inputs of a model that has them, in their order. GetModel
    #: tells it; ListModels does not.
    inputs: tuple[LearnedInput, ...]
    #: The classes of a classifier, in the order of their first appearance. GetModel tells them;
    #: ListModels does not.
    classes: tuple[str, ...]
    #: A name for people, of at most 63 characters. UpdateModel may change this and the next four.
    display_name: str
    #: For selecting models: at most 64, keys as ids are, values of at most 63 characters.
    labels: dict[str, str]
    #: For notes of the caller: at most 64, of 16 KiB together.
    annotations: dict[str, str]
    #: How long a prediction waits for its label, if the request does not say. Absent: the
    #: server's default.
    label_ttl: Optional[timedelta]
    #: At most this many predictions wait for their labels. Absent: the server's limit.
    max_pending_labels: Optional[int]
    #: Changes with every change of the five fields above, of move and of the deletion.
    etag: str
    #: When one of these changed last.
    update_time: Optional[datetime]
    #: When it was deleted. Absent while it is not.
    delete_time: Optional[datetime]
    #: When a deleted model is removed.
    purge_time: Optional[datetime]
    #: The model whose observations this one learns, and no others. Empty: none. It ends, and this
    #: one is a model of its own with all that it has learned, when that model is removed, or
    #: restored to before what this one has learned; when this one cannot learn an observation, or
    #: is a million observations behind; and when SetAlias sets an alias of that model to this
    #: one.
    follows: str
    #: The aliases that name it. GetModel tells them.
    aliases: tuple[str, ...]
    #: How it is doing, if ListModels was asked for it.
    summary: Optional[ModelSummary]
    #: Where it is moved to. Absent while it is not. UpdateModel changes it by the path move
    #: alone.
    move: Optional[Move]
    #: The state that it was imported with. Absent if it was not imported.
    imported: Optional[ImportedState]

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
            move=Move.of(m.move) if m.HasField("move") else None,
            imported=ImportedState.of(m.imported) if m.HasField("imported") else None,
        )


@dataclass(frozen=True)
class SpecCost:
    """SpecCost answers ValidateSpec."""

    #: The spec with every default filled in.
    spec: Optional[dict[str, Any]]
    #: The number of features r.
    features: int
    #: Bytes of memory the state would take.
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
class Snapshot:
    """Snapshot is a kept state of a model."""

    #: How many observations it had learned.
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

    #: The model as it is now.
    model: Optional[ModelInfo]
    #: How many observations are undone.
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
    """Alias is a name that stands for a model."""

    #: The alias, written as an id is. No model has the same id.
    alias: str
    #: The id of the model.
    model: str
    #: When it was set.
    update_time: Optional[datetime]
    #: The model that it named before. An Observe by the alias with the id of a prediction which
    #: that model made is learned by that model. So is one with an id that it has learned: it is a
    #: duplicate.
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

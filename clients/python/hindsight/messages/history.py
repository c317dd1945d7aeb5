"""What the client answers: history. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional

from google.protobuf.json_format import MessageToDict
from hindsight._shown import ShownHistory
from hindsight._values import described
from hindsight.messages.performance import ClassPerformance, Performance
from hindsight.messages.predictions import Interval, Outcome
from hindsight.messages.stats import ModelStats
from hindsight.v1 import model_pb2


@dataclass(frozen=True)
class HistoryPoint:
    """HistoryPoint is how a model did since the previous point. Its performance may count fewer
    observations than the point covers."""

    #: Its last observation.
    sequence: int
    #: When that was learned.
    time: Optional[datetime]
    #: The performance since the previous point.
    performance: Optional[Performance]
    #: The same of a classifier.
    classes: Optional[ClassPerformance]
    #: At the last observation, as in ModelStats, like the next three. Absent if computed on
    #: demand.
    regret: Optional[float]
    #: The guarantee, if certified.
    regret_bound: Optional[float]
    #: The number of dictionary centres.
    dictionary: Optional[int]
    #: The expert weights, means over outputs, at most 64.
    expert_weights: tuple[float, ...]
    #: The share of labels inside the intervals of each level since the previous point, in the
    #: order of the spec's coverage.
    realised: tuple[float, ...]

    def __repr__(self) -> str:
        return described(
            self,
            {"regret": "prequential"},
        )

    @classmethod
    def of(cls, m: model_pb2.HistoryPoint) -> HistoryPoint:
        """Reads the message of the API."""
        return cls(
            sequence=m.sequence,
            time=m.time.ToDatetime(timezone.utc) if m.HasField("time") else None,
            performance=Performance.of(m.performance) if m.HasField("performance") else None,
            classes=ClassPerformance.of(m.classes) if m.HasField("classes") else None,
            regret=m.regret if m.HasField("regret") else None,
            regret_bound=m.regret_bound if m.HasField("regret_bound") else None,
            dictionary=m.dictionary if m.HasField("dictionary") else None,
            expert_weights=tuple(m.expert_weights),
            realised=tuple(m.realised),
        )


@dataclass(frozen=True)
class DriftMark:
    """DriftMark is a detected change of the loss."""

    #: Its estimated sequence.
    sequence: int
    #: When it was detected.
    time: Optional[datetime]
    #: The loss rose.
    rise: bool

    @classmethod
    def of(cls, m: model_pb2.DriftMark) -> DriftMark:
        """Reads the message of the API."""
        return cls(
            sequence=m.sequence,
            time=m.time.ToDatetime(timezone.utc) if m.HasField("time") else None,
            rise=m.rise,
        )


@dataclass(frozen=True)
class History(ShownHistory):
    """History answers GetModelHistory."""

    #: Oldest first, at most 256. Each covers the same power-of-two number of observations; the
    #: last may cover fewer. Numbers have six digits, weights four decimals.
    points: tuple[HistoryPoint, ...]
    #: The names in the order of HistoryPoint.expert_weights: experts of auto, ridges, kernels of
    #: raker, intervals of ada_raker.
    experts: tuple[str, ...]
    #: The newest detected changes of the loss, at most 100, oldest first.
    drifts: tuple[DriftMark, ...]

    @classmethod
    def of(cls, m: model_pb2.GetModelHistoryResponse) -> History:
        """Reads the message of the API."""
        return cls(
            points=tuple(HistoryPoint.of(e) for e in m.points),
            experts=tuple(m.experts),
            drifts=tuple(DriftMark.of(e) for e in m.drifts),
        )


@dataclass(frozen=True)
class OutcomeEvent:
    """OutcomeEvent is a learned observation."""

    #: Its outcome.
    outcome: Optional[Outcome]
    #: The label, or the labels.
    labels: tuple[float, ...]
    #: The class.
    class_: str
    #: When it was learned.
    time: Optional[datetime]
    #: The number of outcomes left out since the previous one.
    omitted: int
    #: The intervals of the served prediction.
    intervals: tuple[Interval, ...]
    #: The input, if requested.
    features: tuple[float, ...]
    #: The input by names, if requested.
    inputs: Optional[dict[str, Any]]

    @classmethod
    def of(cls, m: model_pb2.OutcomeEvent) -> OutcomeEvent:
        """Reads the message of the API."""
        return cls(
            outcome=Outcome.of(m.outcome) if m.HasField("outcome") else None,
            labels=tuple(m.labels),
            class_=getattr(m, "class"),
            time=m.time.ToDatetime(timezone.utc) if m.HasField("time") else None,
            omitted=m.omitted,
            intervals=tuple(Interval.of(e) for e in m.intervals),
            features=tuple(m.features),
            inputs=MessageToDict(m.inputs) if m.HasField("inputs") else None,
        )


@dataclass(frozen=True)
class Event:
    """Event is one event."""

    #: An observation was learned.
    outcome: Optional[OutcomeEvent]
    #: The statistics, without what is computed on demand, the digest and the experts. The first
    #: event.
    stats: Optional[ModelStats]
    #: A history point is complete. A point that begins before the previous one ended replaces it.
    history: Optional[HistoryPoint]

    @classmethod
    def of(cls, m: model_pb2.WatchModelResponse) -> Event:
        """Reads the message of the API."""
        return cls(
            outcome=OutcomeEvent.of(m.outcome) if m.HasField("outcome") else None,
            stats=ModelStats.of(m.stats) if m.HasField("stats") else None,
            history=HistoryPoint.of(m.history) if m.HasField("history") else None,
        )

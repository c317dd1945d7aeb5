"""What the client answers: history. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional

from hindsight._values import described
from hindsight.messages.performance import ClassPerformance, Performance
from hindsight.messages.predictions import Outcome
from hindsight.messages.stats import ModelStats
from hindsight.v1 import model_pb2


@dataclass(frozen=True)
class HistoryPoint:
    """HistoryPoint is how a model did from the point before to this one."""

    #: The last observation of the point.
    sequence: int
    #: When it was learned.
    time: Optional[datetime]
    #: The performance over the observations since the point before.
    performance: Optional[Performance]
    #: The same of a classifier.
    classes: Optional[ClassPerformance]
    #: At the last observation. See ModelStats. So are the next three. Absent where it has to be
    #: solved for.
    regret: Optional[float]
    #: What the theory promises. Absent unless the theorem applies.
    regret_bound: Optional[float]
    #: The number of dictionary centres.
    dictionary: Optional[int]
    #: The weights of the experts, the means over the outputs, at most 64. There are fewer than
    #: names where an expert came later, and none before the first mixture.
    expert_weights: tuple[float, ...]
    #: The share of labels inside the intervals of each level since the point before, in the order
    #: of the spec's coverage, the outputs together. None where no interval was judged.
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
    """DriftMark is a change of the loss that was detected."""

    #: The sequence at which it is thought to have happened.
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
class History:
    """History answers GetModelHistory."""

    #: The points, oldest first: at most 256. All are of the same number of observations, a power
    #: of two, but the last one, which may be of fewer. When there are 256, each two neighbours
    #: become one: sums are added up, and what is told of the last observation is that of the
    #: later one. Numbers have six digits, and weights four decimals.
    points: tuple[HistoryPoint, ...]
    #: The names of the experts, in the order of HistoryPoint.expert_weights: of auto, of a
    #: learner with lambdas, the kernels of raker, the intervals of ada_raker.
    experts: tuple[str, ...]
    #: The newest changes of the loss that were detected, at most 100, oldest first.
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
    """OutcomeEvent is an observation that was learned."""

    #: What came of it.
    outcome: Optional[Outcome]
    #: The label, or the labels.
    labels: tuple[float, ...]
    #: The class.
    class_: str
    #: When it was learned.
    time: Optional[datetime]
    #: How many outcomes were left out since the one before.
    omitted: int

    @classmethod
    def of(cls, m: model_pb2.OutcomeEvent) -> OutcomeEvent:
        """Reads the message of the API."""
        return cls(
            outcome=Outcome.of(m.outcome) if m.HasField("outcome") else None,
            labels=tuple(m.labels),
            class_=getattr(m, "class"),
            time=m.time.ToDatetime(timezone.utc) if m.HasField("time") else None,
            omitted=m.omitted,
        )


@dataclass(frozen=True)
class Event:
    """Event is one event."""

    #: An observation was learned.
    outcome: Optional[OutcomeEvent]
    #: The statistics, as GetModelStats tells them, without what has to be solved for, the digest
    #: and the experts. The first event is of this kind.
    stats: Optional[ModelStats]
    #: A point of the history is complete. When points have become longer, the first of these may
    #: begin before the last one ended, and stands for it too.
    history: Optional[HistoryPoint]

    @classmethod
    def of(cls, m: model_pb2.WatchModelResponse) -> Event:
        """Reads the message of the API."""
        return cls(
            outcome=OutcomeEvent.of(m.outcome) if m.HasField("outcome") else None,
            stats=ModelStats.of(m.stats) if m.HasField("stats") else None,
            history=HistoryPoint.of(m.history) if m.HasField("history") else None,
        )

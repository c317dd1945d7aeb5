"""What the client answers: performance. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from hindsight.v1 import model_pb2


@dataclass(frozen=True)
class PerformanceFigures:
    """PerformanceFigures are mean losses, absent without observations."""

    #: Of the predictions, for most learners of their squared errors.
    mean_loss: float
    #: Of the running mean of the labels. This and the next two are absent for classifiers: see
    #: ClassFigures.
    running_mean_loss: Optional[float]
    #: Of the last label.
    last_label_loss: Optional[float]
    #: 1 - mean_loss / the smaller loss of the baselines: 1 is perfect, below 0 is worse than the
    #: better baseline. Absent if a baseline has no loss.
    skill: Optional[float]
    #: The root mean squared error of the predictions, in the unit of the label. This and mae are
    #: means over all outputs, weighted as the losses are. Absent for other losses than the
    #: squared one and in ModelHistory; of a model of before they were counted, over the
    #: observations since.
    rmse: Optional[float]
    #: The mean absolute error of the predictions, in the unit of the label.
    mae: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.PerformanceFigures) -> PerformanceFigures:
        """Reads the message of the API."""
        return cls(
            mean_loss=m.mean_loss,
            running_mean_loss=m.running_mean_loss if m.HasField("running_mean_loss") else None,
            last_label_loss=m.last_label_loss if m.HasField("last_label_loss") else None,
            skill=m.skill if m.HasField("skill") else None,
            rmse=m.rmse if m.HasField("rmse") else None,
            mae=m.mae if m.HasField("mae") else None,
        )


@dataclass(frozen=True)
class Performance:
    """Performance is how a model did beside two baselines: the running mean of the labels, and the
    last label. Losses are multiplied by the weights. It counts every observation but the first that
    the model learned, which all answer before any label, and those set aside."""

    #: The number of evaluated observations, or the sum of their discounts.
    observations: float
    #: Of the prequential predictions: each made from all earlier observations, just before its
    #: label is learned.
    prequential: Optional[PerformanceFigures]
    #: Of the served predictions, which clients received, and the baselines at serving time, else
    #: prequential.
    served: Optional[PerformanceFigures]

    @classmethod
    def of(cls, m: model_pb2.Performance) -> Performance:
        """Reads the message of the API."""
        return cls(
            observations=m.observations,
            prequential=PerformanceFigures.of(m.prequential) if m.HasField("prequential") else None,
            served=PerformanceFigures.of(m.served) if m.HasField("served") else None,
        )


@dataclass(frozen=True)
class ClassFigures:
    """ClassFigures are means."""

    #: The share of wrong predictions.
    error_rate: float
    #: The mean of -log p, p the probability of the observed class, at least 1e-9: of a known
    #: class its score times that of no new class, of a new class the new_class_probability.
    log_loss: float
    #: The mean of the sum over classes of (p - 1 or 0)^2.
    brier_score: float
    #: The error rate of the most frequent class so far.
    majority_error_rate: float
    #: The error rate of the last class.
    last_class_error_rate: float
    #: 1 - error_rate / the smaller error rate of the baselines, unless that is 0.
    skill: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.ClassFigures) -> ClassFigures:
        """Reads the message of the API."""
        return cls(
            error_rate=m.error_rate,
            log_loss=m.log_loss,
            brier_score=m.brier_score,
            majority_error_rate=m.majority_error_rate,
            last_class_error_rate=m.last_class_error_rate,
            skill=m.skill if m.HasField("skill") else None,
        )


@dataclass(frozen=True)
class ClassPerformance:
    """ClassPerformance is the performance of a classifier beside the most frequent class so far,
    and the last class. It counts every observation but the first."""

    #: The number of evaluated observations.
    observations: float
    #: Of the prequential predictions: each made from all earlier observations, just before its
    #: label is learned.
    prequential: Optional[ClassFigures]
    #: Of the served predictions, which clients received, or prequential where none was served.
    served: Optional[ClassFigures]

    @classmethod
    def of(cls, m: model_pb2.ClassPerformance) -> ClassPerformance:
        """Reads the message of the API."""
        return cls(
            observations=m.observations,
            prequential=ClassFigures.of(m.prequential) if m.HasField("prequential") else None,
            served=ClassFigures.of(m.served) if m.HasField("served") else None,
        )


@dataclass(frozen=True)
class LossDifference:
    """LossDifference is a difference of mean losses, of classifiers of error rates, with a
    confidence sequence: one may look and stop at any time."""

    #: The mean loss of this model minus that of the first. Below 0: this model is better.
    mean: float
    #: The lower end of the interval.
    lower: float
    #: The upper end of the interval.
    upper: float
    #: The probability that the interval always holds the difference: 0.95.
    confidence: float
    #: The number of observations, which both models predicted.
    observations: int

    @classmethod
    def of(cls, m: model_pb2.LossDifference) -> LossDifference:
        """Reads the message of the API."""
        return cls(
            mean=m.mean,
            lower=m.lower,
            upper=m.upper,
            confidence=m.confidence,
            observations=m.observations,
        )


@dataclass(frozen=True)
class Comparison:
    """Comparison is one model beside the model that it follows."""

    #: The id of the model.
    model: str
    #: The name of its learner.
    learner: str
    #: The number of followed observations it has learned.
    observations: int
    #: How many the followed model has learned since.
    behind: int
    #: Its performance over these observations.
    performance: Optional[Performance]
    #: The followed model's performance over the same. Absent for that model itself.
    followed: Optional[Performance]
    #: The performance of a classifier.
    classes: Optional[ClassPerformance]
    #: The followed classifier's performance.
    followed_classes: Optional[ClassPerformance]
    #: Its mean prequential loss against the first model's, from 100 observations on.
    difference: Optional[LossDifference]

    @classmethod
    def of(cls, m: model_pb2.Comparison) -> Comparison:
        """Reads the message of the API."""
        return cls(
            model=m.model,
            learner=m.learner,
            observations=m.observations,
            behind=m.behind,
            performance=Performance.of(m.performance) if m.HasField("performance") else None,
            followed=Performance.of(m.followed) if m.HasField("followed") else None,
            classes=ClassPerformance.of(m.classes) if m.HasField("classes") else None,
            followed_classes=ClassPerformance.of(m.followed_classes) if m.HasField("followed_classes") else None,
            difference=LossDifference.of(m.difference) if m.HasField("difference") else None,
        )

"""What the client answers: predictions. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from hindsight._values import described
from hindsight.v1 import prediction_pb2


@dataclass(frozen=True)
class Interval:
    """Interval is where a label will lie with a given frequency."""

    #: The share of labels that are to lie inside, such as 0.9.
    coverage: float
    #: The ends of the interval. Present also when they are 0.
    lower: Optional[float]
    #: The upper end.
    upper: Optional[float]
    #: The lower ends of a model with several outputs; each output by itself has the coverage.
    lowers: tuple[float, ...]
    #: The upper ends of a model with several outputs.
    uppers: tuple[float, ...]

    @classmethod
    def of(cls, m: prediction_pb2.Interval) -> Interval:
        """Reads the message of the API."""
        return cls(
            coverage=m.coverage,
            lower=m.lower if m.HasField("lower") else None,
            upper=m.upper if m.HasField("upper") else None,
            lowers=tuple(m.lowers),
            uppers=tuple(m.uppers),
        )


@dataclass(frozen=True)
class Prediction:
    """Prediction is what a model says of one input."""

    #: Names the prediction in Observe; empty when it is not remembered.
    prediction_id: str
    #: The predicted label. Present also when it is 0.
    value: Optional[float]
    #: The predicted labels of a model with several outputs.
    values: tuple[float, ...]
    #: The predicted class of a classifier.
    class_: str
    #: The probabilities of a classifier's classes, which sum to 1.
    scores: dict[str, float]
    #: sqrt(L*/n q): the standard error of the predicted mean. It is no error of the label: see
    #: intervals. Absent when the learner has no such figure, and before the first observation.
    standard_error: Optional[float]
    #: q / (1 + q) in [0, 1), q = z' A^-1 z: how far the input lies from those learned. 0: much
    #: like them, towards 1: new. Absent when the learner has no such figure.
    leverage: Optional[float]
    #: How many observations the prediction had learned from.
    state_sequence: int
    #: The standard errors of a model with several outputs. Absent when the learner has none, and
    #: before the first observation.
    standard_errors: tuple[float, ...]
    #: Where the label will lie, one interval for each level of the spec's coverage. Absent until
    #: the model knows how far its predictions are from the labels.
    intervals: tuple[Interval, ...]
    #: The probability of the label 1, while all labels are -1 or 1 and the learner knows it: auto
    #: does.
    probability: Optional[float]
    #: Of semiparametric_awv: what its parametric part says alone, the sum of weight times feature
    #: over the weights of GetModelStats, in units of the label. It is the best function in
    #: hindsight of these features; unlike value it is not drawn to 0, or to the mean label, where
    #: the input is new. Absent for other learners and for classifiers, until a scaling is known,
    #: and of a prediction that an earlier version remembered. It costs a multiply-add for each
    #: parametric feature.
    parametric_value: Optional[float]
    #: The same of a model with several outputs.
    parametric_values: tuple[float, ...]
    #: The id of the model that answered, if the request named an alias.
    model: str

    @classmethod
    def of(cls, m: prediction_pb2.Prediction) -> Prediction:
        """Reads the message of the API."""
        return cls(
            prediction_id=m.prediction_id,
            value=m.value if m.HasField("value") else None,
            values=tuple(m.values),
            class_=getattr(m, "class"),
            scores=dict(sorted(m.scores.items())),
            standard_error=m.standard_error if m.HasField("standard_error") else None,
            leverage=m.leverage if m.HasField("leverage") else None,
            state_sequence=m.state_sequence,
            standard_errors=tuple(m.standard_errors),
            intervals=tuple(Interval.of(e) for e in m.intervals),
            probability=m.probability if m.HasField("probability") else None,
            parametric_value=m.parametric_value if m.HasField("parametric_value") else None,
            parametric_values=tuple(m.parametric_values),
            model=m.model,
        )


@dataclass(frozen=True)
class Outcome:
    """Outcome is what came of one observation."""

    #: The place of the observation in the model's history, from 1.
    sequence: int
    #: The prequential prediction: from all that was learned before this observation.
    prediction: Optional[float]
    #: The loss of the prequential prediction.
    loss: Optional[float]
    #: What the client had been told, when there was a prediction.
    served_prediction: Optional[float]
    #: The loss of what the client had been told.
    served_loss: Optional[float]
    #: The regret of the model after this observation; absent for learners whose regret is solved
    #: on demand, see GetModelStats.
    regret: Optional[float]
    #: The observation had been learned before; this is its first answer.
    duplicate: bool
    #: The prequential predictions of a model with several outputs.
    predictions: tuple[float, ...]
    #: What the client had been told by a model with several outputs.
    served_predictions: tuple[float, ...]
    #: The mean loss of the last 1000 rounds or so, this one included: of what the client had been
    #: told, or of the prequential prediction where it had been told nothing.
    recent_loss: Optional[float]
    #: 1 - loss / best baseline over the same rounds: above 0 the model is better than the running
    #: mean and the last label, below 0 it is worse.
    recent_skill: Optional[float]
    #: The class that a classifier predicted prequentially, empty before the first.
    class_: str
    #: The class that the client had been told.
    served_class: str
    #: The id of the model that learned, if the request named an alias.
    model: str
    #: The label gate set the observation aside: the model did not learn it, and recent_loss and
    #: recent_skill leave it out.
    set_aside: bool

    def __repr__(self) -> str:
        return described(
            self,
            {"prediction": "prequential", "loss": "prequential", "regret": "prequential",
             "predictions": "prequential", "recent_loss": "served", "recent_skill": "served",
             "class_": "prequential"},
        )

    @classmethod
    def of(cls, m: prediction_pb2.Outcome) -> Outcome:
        """Reads the message of the API."""
        return cls(
            sequence=m.sequence,
            prediction=m.prediction if m.HasField("prediction") else None,
            loss=m.loss if m.HasField("loss") else None,
            served_prediction=m.served_prediction if m.HasField("served_prediction") else None,
            served_loss=m.served_loss if m.HasField("served_loss") else None,
            regret=m.regret if m.HasField("regret") else None,
            duplicate=m.duplicate,
            predictions=tuple(m.predictions),
            served_predictions=tuple(m.served_predictions),
            recent_loss=m.recent_loss if m.HasField("recent_loss") else None,
            recent_skill=m.recent_skill if m.HasField("recent_skill") else None,
            class_=getattr(m, "class"),
            served_class=m.served_class,
            model=m.model,
            set_aside=m.set_aside,
        )

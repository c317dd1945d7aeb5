"""What the client answers: predictions. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

from hindsight._shown import ShownPrediction
from hindsight._values import described
from hindsight.v1 import prediction_pb2


@dataclass(frozen=True)
class Interval:
    """Interval contains the label with a given frequency."""

    #: The intended share of labels inside, such as 0.9.
    coverage: float
    #: The lower end; present also if 0.
    lower: Optional[float]
    #: The upper end; present also if 0.
    upper: Optional[float]
    #: The lower end of each output.
    lowers: tuple[float, ...]
    #: The upper end of each output.
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
class KeyPart:
    """KeyPart is how much a key of the row, such as its user, changes a prediction."""

    #: The categorical input.
    input: str
    #: For each output, the value less the value of the same row with a category that the model
    #: has never seen; of a classifier, of the raw score. Keys act together: these need not sum to
    #: the contribution of the family.
    contributions: tuple[float, ...]

    @classmethod
    def of(cls, m: prediction_pb2.KeyPart) -> KeyPart:
        """Reads the message of the API."""
        return cls(
            input=m.input,
            contributions=tuple(m.contributions),
        )


@dataclass(frozen=True)
class FamilyPart:
    """FamilyPart is the part of a family of experts of auto in a prediction."""

    #: linear, kernel, trees, neighbors, crosses, cells, keys, baselines, or rest: the constants
    #: of the stacks, and what is cut to the range of the labels.
    family: str
    #: The weight of the family for each output. It may be negative; the weights sum to 1.
    weights: tuple[float, ...]
    #: Weight times what the family says, for each output. They sum to the value, of a classifier
    #: to the raw score. Empty in GetModelStats.
    contributions: tuple[float, ...]
    #: Of the family keys: how much each key of the row changes the prediction.
    keys: tuple[KeyPart, ...]

    @classmethod
    def of(cls, m: prediction_pb2.FamilyPart) -> FamilyPart:
        """Reads the message of the API."""
        return cls(
            family=m.family,
            weights=tuple(m.weights),
            contributions=tuple(m.contributions),
            keys=tuple(KeyPart.of(e) for e in m.keys),
        )


@dataclass(frozen=True)
class Prediction(ShownPrediction):
    """Prediction is the model's answer for one input."""

    #: Names the prediction in Observe. Empty if not remembered.
    prediction_id: str
    #: The predicted label; present also if 0.
    value: Optional[float]
    #: The predicted labels of a model with several outputs.
    values: tuple[float, ...]
    #: The predicted class of a classifier: the class of the largest score, but of rlsc the class
    #: of the largest score after recoding.
    class_: str
    #: The probabilities of the known classes, given that the class is known; they sum to 1.
    scores: dict[str, float]
    #: sqrt(L*/n q), the standard error of the predicted mean; for the label see intervals.
    standard_error: Optional[float]
    #: q / (1 + q) in [0, 1), q = z' A^-1 z: near 1 the input is unlike those learned.
    leverage: Optional[float]
    #: The number of observations in the state that answered.
    state_sequence: int
    #: The standard error of each output.
    standard_errors: tuple[float, ...]
    #: One prediction interval per level of the spec's coverage, once the model can estimate its
    #: error.
    intervals: tuple[Interval, ...]
    #: The probability of the label 1 while all labels are -1 or 1, of auto.
    probability: Optional[float]
    #: semiparametric_awv: the parametric part, the sum of weight times feature over the weights
    #: of GetModelStats. Unlike value it does not shrink at new inputs. Absent for classifiers and
    #: until a scaling is known.
    parametric_value: Optional[float]
    #: The parametric part of each output.
    parametric_values: tuple[float, ...]
    #: The id of the model that answered, if the request named an alias.
    model: str
    #: If requested, what each family of experts says.
    explanation: tuple[FamilyPart, ...]
    #: The probability that the class is a new one, of a classifier that may have more classes.
    new_class_probability: Optional[float]
    #: False of a model that has learned nothing: the answer is 0, or no class.
    ready: bool
    #: auto: the horizon that the prediction took.
    horizon: int
    #: In a cluster, how old the state that answered is at most. Absent where the owner answered.
    age: Optional[timedelta] = None

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
            explanation=tuple(FamilyPart.of(e) for e in m.explanation),
            new_class_probability=m.new_class_probability if m.HasField("new_class_probability") else None,
            ready=m.ready,
            horizon=m.horizon,
        )


@dataclass(frozen=True)
class Outcome:
    """Outcome is the result of one observation."""

    #: The position of the observation in the model's log, from 1.
    sequence: int
    #: The prequential prediction: from everything learned before this observation.
    prediction: Optional[float]
    #: The loss of the prequential prediction.
    loss: Optional[float]
    #: The prediction that the client received, if any.
    served_prediction: Optional[float]
    #: The loss of the served prediction.
    served_loss: Optional[float]
    #: The regret after this observation, if tracked.
    regret: Optional[float]
    #: The observation had been learned before; this is its first answer.
    duplicate: bool
    #: The prequential prediction of each output.
    predictions: tuple[float, ...]
    #: The served prediction of each output.
    served_predictions: tuple[float, ...]
    #: The mean loss of about the last 1000 rounds: served, else prequential. Absent while no
    #: observation is evaluated: see Performance.
    recent_loss: Optional[float]
    #: 1 - loss / loss of the better baseline over the same rounds.
    recent_skill: Optional[float]
    #: The prequential class of a classifier; empty before the first.
    class_: str
    #: The served class.
    served_class: str
    #: The id of the model that learned, if the request named an alias.
    model: str
    #: The label gate set the observation aside: the model did not learn it.
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

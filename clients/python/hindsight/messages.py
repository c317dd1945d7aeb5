"""What the client answers. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from hindsight._values import enum_name, spec_dict
from hindsight.v1 import model_pb2, prediction_pb2


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
        )


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
class PerformanceFigures:
    """PerformanceFigures are mean losses beside those of the baselines. They are absent when there
    is no observation."""

    #: Of the predictions.
    mean_loss: float
    #: Of the running mean of the labels. This and the next two are absent of a classifier, whose
    #: baselines are in ClassFigures.
    running_mean_loss: Optional[float]
    #: Of the last label.
    last_label_loss: Optional[float]
    #: 1 - mean_loss / the smaller loss of the baselines. 1 is perfect, 0 as good as the better
    #: baseline, below 0 worse. Absent when a baseline has no loss.
    skill: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.PerformanceFigures) -> PerformanceFigures:
        """Reads the message of the API."""
        return cls(
            mean_loss=m.mean_loss,
            running_mean_loss=m.running_mean_loss if m.HasField("running_mean_loss") else None,
            last_label_loss=m.last_label_loss if m.HasField("last_label_loss") else None,
            skill=m.skill if m.HasField("skill") else None,
        )


@dataclass(frozen=True)
class Performance:
    """Performance is how a model did over some observations, beside two predictors that ignore the
    inputs: the running mean of the labels, and the last label. Losses are the model's own, times
    the weights of the observations."""

    #: How many observations these are; of the discounted ones, the sum of what they count.
    observations: float
    #: Of the prequential predictions.
    prequential: Optional[PerformanceFigures]
    #: Of what the client was told, beside the baselines of that moment. Where an observation had
    #: not been predicted, the prequential figures stand for it.
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

    #: The share of predictions of another class than was observed.
    error_rate: float
    #: The mean of -log p, p being the probability of the class that was observed, at least 1e-9.
    log_loss: float
    #: The mean of sum over the classes of (p - 1 or 0)^2.
    brier_score: float
    #: The error rate of the class that was most frequent so far.
    majority_error_rate: float
    #: The error rate of the last class.
    last_class_error_rate: float
    #: 1 - error_rate / the smaller error rate of the baselines. Absent when a baseline made no
    #: error.
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
    """ClassPerformance is how a classifier did over some observations, beside two predictors that
    ignore the inputs: the class that was most frequent so far, and the last one."""

    #: How many observations these are.
    observations: float
    #: Of the prequential predictions.
    prequential: Optional[ClassFigures]
    #: Of what the client was told. Where it was told nothing, the prequential figures stand for
    #: it.
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
class IntervalStats:
    """IntervalStats is how the intervals of one level did."""

    #: The share of labels that were to lie inside.
    coverage: float
    #: The output, from 0.
    output: int
    #: The intervals that were judged.
    observations: int
    #: The share of labels that lay inside, over all.
    realised: Optional[float]
    #: The same over the last 1000.
    recent: Optional[float]
    #: The least over 500 intervals in a row so far, the first 500 left out.
    least: Optional[float]
    #: The mean width.
    mean_width: Optional[float]
    #: The mean interval score: the width, plus 2/(1 - coverage) times what the label missed the
    #: interval by. Less is better.
    mean_score: Optional[float]
    #: The share of labels that lay inside, where the interval before counts 0.999 times as much.
    discounted: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.IntervalStats) -> IntervalStats:
        """Reads the message of the API."""
        return cls(
            coverage=m.coverage,
            output=m.output,
            observations=m.observations,
            realised=m.realised if m.HasField("realised") else None,
            recent=m.recent if m.HasField("recent") else None,
            least=m.least if m.HasField("least") else None,
            mean_width=m.mean_width if m.HasField("mean_width") else None,
            mean_score=m.mean_score if m.HasField("mean_score") else None,
            discounted=m.discounted if m.HasField("discounted") else None,
        )


@dataclass(frozen=True)
class Drift:
    """Drift is what is known of changes in the loss: of what the client was told, or of the
    prequential predictions where it was told nothing."""

    #: How many changes were detected.
    detected: int
    #: The sequence at which the newest change is thought to have happened.
    last_change_sequence: Optional[int]
    #: The mean loss before it.
    loss_before: Optional[float]
    #: The mean loss after it, until it was detected.
    loss_after: Optional[float]
    #: How many of the changes were rises. The others were falls: a model that learns has one.
    rises: int

    @classmethod
    def of(cls, m: model_pb2.Drift) -> Drift:
        """Reads the message of the API."""
        return cls(
            detected=m.detected,
            last_change_sequence=m.last_change_sequence if m.HasField("last_change_sequence") else None,
            loss_before=m.loss_before if m.HasField("loss_before") else None,
            loss_after=m.loss_after if m.HasField("loss_after") else None,
            rises=m.rises,
        )


@dataclass(frozen=True)
class Expert:
    """Expert is one of the predictors that a learner mixes."""

    #: What it is: its features, its forgetting factor or its step.
    name: str
    #: The sum of its losses over the rounds in which it predicted.
    loss_sum: float
    #: Its part in the mixture now.
    weight: float
    #: It predicts. The rest waits for the first observations.
    awake: bool

    @classmethod
    def of(cls, m: model_pb2.Expert) -> Expert:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            loss_sum=m.loss_sum,
            weight=m.weight,
            awake=m.awake,
        )


@dataclass(frozen=True)
class InputStats:
    """InputStats is what has been seen of one named input."""

    #: Its name.
    name: str
    #: The observed records with a value.
    seen: int
    #: The observed records without one.
    missing: int
    #: The categories that have a feature of their own.
    categories: int
    #: The values that lay outside of what had been learned when they came: outside of the range
    #: of a number, and categories that were not known.
    outside: int
    #: outside / seen. Absent before the first value.
    outside_share: Optional[float]
    #: The least value. This and the next three are absent for categories, and before the first
    #: value. Of a time they are seconds since 1970.
    low: Optional[float]
    #: The largest value.
    high: Optional[float]
    #: The mean.
    mean: Optional[float]
    #: The standard deviation.
    deviation: Optional[float]
    #: The population stability index of the last 512 records against all before: above 0.1 the
    #: input has moved, above 0.25 by much. Absent until it is known.
    shift: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.InputStats) -> InputStats:
        """Reads the message of the API."""
        return cls(
            name=m.name,
            seen=m.seen,
            missing=m.missing,
            categories=m.categories,
            outside=m.outside,
            outside_share=m.outside_share if m.HasField("outside_share") else None,
            low=m.low if m.HasField("low") else None,
            high=m.high if m.HasField("high") else None,
            mean=m.mean if m.HasField("mean") else None,
            deviation=m.deviation if m.HasField("deviation") else None,
            shift=m.shift if m.HasField("shift") else None,
        )


@dataclass(frozen=True)
class ReliabilityBin:
    """ReliabilityBin is a bin of the reliability table."""

    #: The least probability of the bin.
    low: float
    #: The largest.
    high: float
    #: The probabilities in it. Each class of each prediction has one.
    members: int
    #: Their mean.
    predicted: Optional[float]
    #: The share of them whose class was observed.
    found: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.ReliabilityBin) -> ReliabilityBin:
        """Reads the message of the API."""
        return cls(
            low=m.low,
            high=m.high,
            members=m.members,
            predicted=m.predicted if m.HasField("predicted") else None,
            found=m.found if m.HasField("found") else None,
        )


@dataclass(frozen=True)
class ClassCounts:
    """ClassCounts is what became of one class."""

    #: The class.
    class_: str
    #: Its observations.
    observed: int
    #: Those of them for which another class was predicted.
    errors: int
    #: How often it was predicted.
    predicted: int
    #: The sum of its probabilities: how often it was expected.
    expected: float

    @classmethod
    def of(cls, m: model_pb2.ClassCounts) -> ClassCounts:
        """Reads the message of the API."""
        return cls(
            class_=getattr(m, "class"),
            observed=m.observed,
            errors=m.errors,
            predicted=m.predicted,
            expected=m.expected,
        )


@dataclass(frozen=True)
class ClassStats:
    """ClassStats is how a classifier does."""

    #: Over all observations.
    performance: Optional[ClassPerformance]
    #: Over the last 1000 observations, and up to 50 more.
    recent: Optional[ClassPerformance]
    #: What became of the probabilities that were told: ten bins of the same width.
    reliability: tuple[ReliabilityBin, ...]
    #: What became of each class, in the order of first appearance.
    classes: tuple[ClassCounts, ...]

    @classmethod
    def of(cls, m: model_pb2.ClassStats) -> ClassStats:
        """Reads the message of the API."""
        return cls(
            performance=ClassPerformance.of(m.performance) if m.HasField("performance") else None,
            recent=ClassPerformance.of(m.recent) if m.HasField("recent") else None,
            reliability=tuple(ReliabilityBin.of(e) for e in m.reliability),
            classes=tuple(ClassCounts.of(e) for e in m.classes),
        )


@dataclass(frozen=True)
class FeatureWeight:
    """FeatureWeight is a weight of an affine function."""

    #: The name of the feature, x[i] without named inputs; empty for the constant.
    feature: str
    #: The weight, in the units of label and feature.
    weight: float
    #: The weight times the deviation of the feature. Absent when that is not known.
    effect: Optional[float]
    #: The output, from 0.
    output: int

    @classmethod
    def of(cls, m: model_pb2.FeatureWeight) -> FeatureWeight:
        """Reads the message of the API."""
        return cls(
            feature=m.feature,
            weight=m.weight,
            effect=m.effect if m.HasField("effect") else None,
            output=m.output,
        )


@dataclass(frozen=True)
class ModelStats:
    """ModelStats tells how a model is doing. Losses are those of the prequential predictions,
    unless they are called served, summed over the outputs: squared, or the learner's own."""

    #: The id of the model.
    model: str
    #: The name of its learner.
    learner: str
    #: How many observations it has learned.
    observations: int
    #: The sum of the prequential losses.
    loss_sum: float
    #: loss_sum / observations. Absent before the first observation.
    mean_loss: Optional[float]
    #: min over w of sum (y - w.z)^2 + lambda |w|^2: the best fixed function in hindsight, its
    #: penalty included. Absent, as regret is, when it is not tracked.
    hindsight_loss: Optional[float]
    #: loss_sum - hindsight_loss.
    regret: Optional[float]
    #: The regret against the same function without its penalty: regret + lambda |g|^2.
    regret_unpenalized: Optional[float]
    #: What the theory promises of regret: B^2 log det(A / lambda); of online Newton steps log
    #: det(A / alpha) / (2 eta) times the largest weight. Absent, as certificate is, unless
    #: certified.
    regret_bound: Optional[float]
    #: C = sum y^2 q/(1+q), between the regret and its bound; of online Newton steps the sum of
    #: weight h / (2 eta), which bounds the regret against functions within the range.
    certificate: Optional[float]
    #: regret <= certificate <= regret_bound holds to rounding, the first part not for online
    #: Newton steps, whose best function may leave the range. False means that the state is
    #: corrupt. Absent for a model that is not certified, of which nothing is wrong.
    certificate_ok: Optional[bool]
    #: The theorem applies: the feature space is fixed.
    certified: bool
    #: log det(A / lambda). Absent for a learner without A, and before the first observation.
    log_determinant: Optional[float]
    #: B, the largest sqrt(weight) |label| seen, in the units of the labels; of auto the largest
    #: |label|. Of several outputs it is the root of the sum of their squares. Labels that the
    #: learner codes, as classes, count as they are coded. Absent while it is 0 or not known:
    #: before the first observation, and while a scaling is being determined.
    label_bound: Optional[float]
    #: The number of features r.
    features: int
    #: Tr(C (C + lambda I)^-1), when asked for.
    effective_dimension: Optional[float]
    #: The number of dictionary centres, for learners that have one.
    dictionary: Optional[int]
    #: Observations that had been predicted, and the sum of the losses of what was served then.
    served_observations: int
    #: The sum of the losses of what was served. Absent when nothing was.
    served_loss_sum: Optional[float]
    #: Predictions whose label has not come.
    pending_labels: int
    #: Bytes of memory the learner's state takes.
    state_bytes: int
    #: SHA-256 of the learner's state, hexadecimal.
    state_digest: str
    #: How acknowledged observations are kept: sync or async.
    durability: str
    #: The sequence of the newest snapshot; 0: none.
    snapshot_sequence: int
    #: The performance over all observations. Those that were learned by a version that kept no
    #: such figures are left out.
    performance: Optional[Performance]
    #: The performance over the last 1000 observations, and up to 50 more.
    recent: Optional[Performance]
    #: The performance where the observation s counts 0.999^(t-s) at t.
    discounted: Optional[Performance]
    #: The regret of what the client was told: regret, where the served predictions stand for the
    #: prequential ones of the same observations. Absent when regret is, and for a learner that
    #: forgets.
    served_regret: Optional[float]
    #: How the prediction intervals did, one entry for each level and output.
    intervals: tuple[IntervalStats, ...]
    #: Changes of the loss.
    drift: Optional[Drift]
    #: The experts that the learner mixes, of auto, and the ridges of a learner with lambdas.
    experts: tuple[Expert, ...]
    #: What has been seen of the named inputs.
    inputs: tuple[InputStats, ...]
    #: How a classifier does.
    classes: Optional[ClassStats]
    #: The weights of a learner whose functions are affine in its features, and of the parametric
    #: part of semiparametric_awv alone, those with the largest effect first, at most 100.
    weights: tuple[FeatureWeight, ...]
    #: When asked for: the loss in hindsight of the model of the first m features alone, in the
    #: order of the learner, for m = 0 to features, at most 16384: hindsight_path[m] = sum y^2 -
    #: sum over i <= m of u_i^2, u = R^-T b, R^T R = A summed over the outputs, in squared units
    #: of the label. The first is the sum of the squared labels, about the offset of their
    #: scaling; it never rises; the last is hindsight_loss. It costs a multiply-add for each
    #: feature and output. Of lambdas it is the path of the ridge whose hindsight_loss this is.
    #: Source: Camoriano, thesis (Genoa, 2017), chapter 4, whose incremental Nyström estimator has
    #: these losses. Learners with an order of their features have one: pkawv_taylor,
    #: pkawv_nystrom, fourier_awv, linear_awv, semiparametric_awv and rlsc. It is empty for
    #: others, and until a scaling is known.
    hindsight_path: tuple[float, ...]
    #: Of semiparametric_awv: the part of what is explained, sum y^2 - hindsight_loss, that its
    #: parametric features explain alone, |u_p|^2 / |u|^2, from 0 to 1, over all outputs. The
    #: labels are about the offset of their scaling. Absent for other learners, while nothing is
    #: explained, and until a scaling is known. See weights.
    parametric_share: Optional[float]

    @classmethod
    def of(cls, m: model_pb2.ModelStats) -> ModelStats:
        """Reads the message of the API."""
        return cls(
            model=m.model,
            learner=m.learner,
            observations=m.observations,
            loss_sum=m.loss_sum,
            mean_loss=m.mean_loss if m.HasField("mean_loss") else None,
            hindsight_loss=m.hindsight_loss if m.HasField("hindsight_loss") else None,
            regret=m.regret if m.HasField("regret") else None,
            regret_unpenalized=m.regret_unpenalized if m.HasField("regret_unpenalized") else None,
            regret_bound=m.regret_bound if m.HasField("regret_bound") else None,
            certificate=m.certificate if m.HasField("certificate") else None,
            certificate_ok=m.certificate_ok if m.HasField("certificate_ok") else None,
            certified=m.certified,
            log_determinant=m.log_determinant if m.HasField("log_determinant") else None,
            label_bound=m.label_bound if m.HasField("label_bound") else None,
            features=m.features,
            effective_dimension=m.effective_dimension if m.HasField("effective_dimension") else None,
            dictionary=m.dictionary if m.HasField("dictionary") else None,
            served_observations=m.served_observations,
            served_loss_sum=m.served_loss_sum if m.HasField("served_loss_sum") else None,
            pending_labels=m.pending_labels,
            state_bytes=m.state_bytes,
            state_digest=m.state_digest,
            durability=m.durability,
            snapshot_sequence=m.snapshot_sequence,
            performance=Performance.of(m.performance) if m.HasField("performance") else None,
            recent=Performance.of(m.recent) if m.HasField("recent") else None,
            discounted=Performance.of(m.discounted) if m.HasField("discounted") else None,
            served_regret=m.served_regret if m.HasField("served_regret") else None,
            intervals=tuple(IntervalStats.of(e) for e in m.intervals),
            drift=Drift.of(m.drift) if m.HasField("drift") else None,
            experts=tuple(Expert.of(e) for e in m.experts),
            inputs=tuple(InputStats.of(e) for e in m.inputs),
            classes=ClassStats.of(m.classes) if m.HasField("classes") else None,
            weights=tuple(FeatureWeight.of(e) for e in m.weights),
            hindsight_path=tuple(m.hindsight_path),
            parametric_share=m.parametric_share if m.HasField("parametric_share") else None,
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


@dataclass(frozen=True)
class Comparison:
    """Comparison is how one model did beside the model that it follows."""

    #: The id of the model.
    model: str
    #: The name of its learner.
    learner: str
    #: How many observations of the model that it follows it has learned and the figures are of.
    #: Of that model itself, how many it has learned.
    observations: int
    #: How many the model that it follows has learned since.
    behind: int
    #: Its performance over these observations.
    performance: Optional[Performance]
    #: That of the model that it follows, over the same. Absent of that model itself.
    followed: Optional[Performance]
    #: The same of classifiers.
    classes: Optional[ClassPerformance]
    #: That of the model that it follows.
    followed_classes: Optional[ClassPerformance]

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

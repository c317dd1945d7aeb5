"""What the client answers: stats. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from hindsight._values import described
from hindsight.messages.performance import ClassPerformance, Performance
from hindsight.v1 import model_pb2


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

    def __repr__(self) -> str:
        return described(
            self,
            {"loss_before": "served", "loss_after": "served"},
        )

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
class LabelGateStats:
    """LabelGateStats is what the label gate of a model did."""

    #: How many observations were set aside when they came, or dropped from the first 128.
    set_aside: int
    #: set_aside / observations. Above 0.01 it is time to look where the labels come from.
    share: float
    #: The sequence of the newest of them; 0: none.
    last_set_aside: int
    #: The part of loss_sum that was lost on observations that are set aside.
    set_aside_loss: float
    #: What the regret over all observations is beyond regret: exact, and bounded by no theorem.
    #: Absent for a learner other than auto.
    regret_beside: Optional[float]
    #: How often the learner started anew, because strange labels persisted or the labels shrank
    #: to a small part of what they were.
    starts: int
    #: The sequence of the observation at which it last did; 0: never.
    last_start: int

    @classmethod
    def of(cls, m: model_pb2.LabelGateStats) -> LabelGateStats:
        """Reads the message of the API."""
        return cls(
            set_aside=m.set_aside,
            share=m.share,
            last_set_aside=m.last_set_aside,
            set_aside_loss=m.set_aside_loss,
            regret_beside=m.regret_beside if m.HasField("regret_beside") else None,
            starts=m.starts,
            last_start=m.last_start,
        )


@dataclass(frozen=True)
class ModelStats:
    """ModelStats tells how a model is doing. Losses are those of the prequential predictions,
    unless they are called served, summed over the outputs: squared, or the learner's own."""

    #: The id of the model.
    model: str
    #: The name of its learner.
    learner: str
    #: How many observations it has learned or set aside.
    observations: int
    #: The sum of the prequential losses.
    loss_sum: float
    #: loss_sum / observations. Absent before the first observation.
    mean_loss: Optional[float]
    #: min over w of sum (y - w.z)^2 + lambda |w|^2: the best fixed function in hindsight of the
    #: features z as they were computed in their rounds, its penalty included. While a scaling is
    #: being determined, the loss of the best constants. Absent, as regret is, when it is not
    #: tracked.
    hindsight_loss: Optional[float]
    #: loss_sum - hindsight_loss.
    regret: Optional[float]
    #: The regret against the same function without its penalty: regret + lambda |g|^2.
    regret_unpenalized: Optional[float]
    #: What the theory promises of regret: B^2 log det(A / lambda); of online Newton steps log
    #: det(A / alpha) / (2 eta) times the largest weight. Absent, as certificate is, unless
    #: certified.
    regret_bound: Optional[float]
    #: C = sum y^2 q/(1+q), between the regret and its bound; a label of weight w adds w y^2
    #: q/(2+q-w). Of online Newton steps the sum of weight h / (2 eta), which bounds the regret
    #: against functions within the range.
    certificate: Optional[float]
    #: regret <= certificate <= regret_bound holds to rounding, the first part not for online
    #: Newton steps, whose best function may leave the range. False means that the state is
    #: corrupt. Absent for a model that is not certified, of which nothing is wrong.
    certificate_ok: Optional[bool]
    #: The theorem applies: the features of every round are fixed before its label, nothing is
    #: forgotten, and no weight was 2 or more; see docs/theory.md for the learners.
    certified: bool
    #: log det(A / lambda). Absent for a learner without A, and before the first observation.
    log_determinant: Optional[float]
    #: B, the largest |label| seen, in the units of the labels; with a weight, in the AWV family
    #: over sqrt(2 - weight), in others but auto times sqrt(weight). Of several outputs it is the
    #: root of the sum of their squares. Labels that the learner codes, as classes, count as they
    #: are coded. Absent while it is 0 or not known: before the first observation, while a scaling
    #: is being determined, and after a weight of 2 or more in the AWV family.
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
    #: What the label gate did. Absent for a model without one. regret, regret_bound and
    #: certificate are of the observations that were learned.
    label_gate: Optional[LabelGateStats]

    def __repr__(self) -> str:
        return described(
            self,
            {"loss_sum": "prequential", "mean_loss": "prequential", "regret": "prequential",
             "regret_unpenalized": "prequential"},
        )

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
            label_gate=LabelGateStats.of(m.label_gate) if m.HasField("label_gate") else None,
        )

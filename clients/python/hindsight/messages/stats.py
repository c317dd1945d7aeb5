"""What the client answers: stats. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from hindsight._shown import ShownStats
from hindsight._values import described
from hindsight.messages.performance import ClassPerformance, Performance
from hindsight.messages.predictions import FamilyPart
from hindsight.v1 import model_pb2


@dataclass(frozen=True)
class IntervalStats:
    """IntervalStats is how the intervals of one level did."""

    #: The intended share of labels inside.
    coverage: float
    #: The output, from 0.
    output: int
    #: The number of evaluated intervals.
    observations: int
    #: The share of labels inside, over all.
    realised: Optional[float]
    #: The share over the last 1000.
    recent: Optional[float]
    #: The least share over any 500 in a row, without the first 500.
    least: Optional[float]
    #: The mean width.
    mean_width: Optional[float]
    #: The mean interval score: width plus 2/(1 - coverage) times the distance of the label from
    #: the interval. Less is better.
    mean_score: Optional[float]

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
        )


@dataclass(frozen=True)
class Drift:
    """Drift is the detected changes of the loss: served, or prequential where no prediction was
    served."""

    #: The number of changes.
    detected: int
    #: The estimated sequence of the newest change.
    last_change_sequence: Optional[int]
    #: The mean loss before it.
    loss_before: Optional[float]
    #: The mean loss after it, up to its detection.
    loss_after: Optional[float]
    #: The number of rises; the others are falls, as when a model learns.
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
    """Expert is a predictor in a mixture."""

    #: Its features, forgetting factor or step.
    name: str
    #: The sum of its losses while awake.
    loss_sum: float
    #: Its current weight.
    weight: float
    #: It predicts. Some experts wait for the first observations.
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
    """InputStats is what the model has seen of one named input."""

    #: Its name.
    name: str
    #: Records with a value.
    seen: int
    #: Records without a value.
    missing: int
    #: Categories with a feature of their own.
    categories: int
    #: Values outside the learned range, or of an unknown category or key, on arrival.
    outside: int
    #: outside / seen. Absent before the first value.
    outside_share: Optional[float]
    #: The least value. Absent, as the next three, for categories and before the first value.
    #: Times are in seconds since 1970.
    low: Optional[float]
    #: The largest value.
    high: Optional[float]
    #: The mean.
    mean: Optional[float]
    #: The standard deviation.
    deviation: Optional[float]
    #: The population stability index of the last 512 records against all before: above 0.1 the
    #: input has moved, above 0.25 by much. Absent until known.
    shift: Optional[float]
    #: Keys whose category the model has: of all inputs together the max_keys newest at most.
    keys: int

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
            keys=m.keys,
        )


@dataclass(frozen=True)
class ReliabilityBin:
    """ReliabilityBin is a bin of the reliability table."""

    #: The least probability of the bin.
    low: float
    #: The largest.
    high: float
    #: The number of probabilities; each prediction has one per class.
    members: int
    #: Their mean.
    predicted: Optional[float]
    #: The share whose class was observed.
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
    """ClassCounts counts one class."""

    #: The class.
    class_: str
    #: Its observations, the first one included.
    observed: int
    #: Those with another class predicted, or none.
    errors: int
    #: How often it was predicted.
    predicted: int
    #: The sum of its probabilities.
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
class ClassRanking:
    """ClassRanking is how well probabilities tell the rarer of two classes from the other."""

    #: The rarer class.
    class_: str
    #: The area under the ROC curve: how often an observation of the class has a larger
    #: probability than one of the other, .5 for a coin. Log-odds that share an eighth are ties.
    auc: float
    #: The largest F1 of a threshold of the probability.
    f1: float
    #: Of that threshold: the share of those above it that are of the class.
    precision: float
    #: Of that threshold: the share of the class that is above it.
    recall: float
    #: The threshold.
    threshold: float

    @classmethod
    def of(cls, m: model_pb2.ClassRanking) -> ClassRanking:
        """Reads the message of the API."""
        return cls(
            class_=getattr(m, "class"),
            auc=m.auc,
            f1=m.f1,
            precision=m.precision,
            recall=m.recall,
            threshold=m.threshold,
        )


@dataclass(frozen=True)
class ClassStats:
    """ClassStats is the performance of a classifier."""

    #: Over all evaluated observations.
    performance: Optional[ClassPerformance]
    #: Over the last 1000 to 1050 observations.
    recent: Optional[ClassPerformance]
    #: The served probabilities in ten bins of equal width.
    reliability: tuple[ReliabilityBin, ...]
    #: Each class, in order of first appearance.
    classes: tuple[ClassCounts, ...]
    #: How well the served probabilities tell two classes apart. Absent with fewer or more
    #: classes.
    ranking: Optional[ClassRanking]

    @classmethod
    def of(cls, m: model_pb2.ClassStats) -> ClassStats:
        """Reads the message of the API."""
        return cls(
            performance=ClassPerformance.of(m.performance) if m.HasField("performance") else None,
            recent=ClassPerformance.of(m.recent) if m.HasField("recent") else None,
            reliability=tuple(ReliabilityBin.of(e) for e in m.reliability),
            classes=tuple(ClassCounts.of(e) for e in m.classes),
            ranking=ClassRanking.of(m.ranking) if m.HasField("ranking") else None,
        )


@dataclass(frozen=True)
class FeatureWeight:
    """FeatureWeight is a weight of an affine function."""

    #: The name of the feature, x[i] without named inputs, empty for the constant.
    feature: str
    #: The weight in label units per feature unit.
    weight: float
    #: The weight times the feature's deviation, if known.
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
    """LabelGateStats is the work of a label gate."""

    #: Observations set aside on arrival, or dropped from the first 128.
    set_aside: int
    #: set_aside / observations. Above 0.01, check the source of the labels.
    share: float
    #: The sequence of the newest; 0: none.
    last_set_aside: int
    #: The part of loss_sum lost on observations set aside.
    set_aside_loss: float
    #: The regret over all observations minus regret, of auto.
    regret_beside: Optional[float]
    #: How often the learner restarted.
    starts: int
    #: The sequence of the newest restart; 0: never.
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
class InputImportance:
    """InputImportance is how much an input matters to the trees of auto, on a sample of the newest
    8192 rows."""

    #: The input, x[i] without named inputs; past_labels; or level_1, the prediction of the
    #: experts without trees.
    input: str
    #: The input's share of the splits' gain.
    gain: float
    #: How much the mean squared error of the trees grows when rows exchange their values of the
    #: input, in variances of the label.
    permutation: float

    @classmethod
    def of(cls, m: model_pb2.InputImportance) -> InputImportance:
        """Reads the message of the API."""
        return cls(
            input=m.input,
            gain=m.gain,
            permutation=m.permutation,
        )


@dataclass(frozen=True)
class KeyEffect:
    """KeyEffect is what auto has learned of a key: how far the labels of the category are from what
    the other inputs say."""

    #: The categorical input.
    input: str
    #: The category. Absent for missing values, and for a category whose text the model no longer
    #: has.
    category: Optional[str]
    #: The key is the one of missing values.
    missing: bool
    #: The effect, in units of the label; of a classifier, of the indicator of the class.
    effect: float
    #: How many observations had the key. One counts by its weight.
    observations: float
    #: The output that it is an effect on.
    output: int

    @classmethod
    def of(cls, m: model_pb2.KeyEffect) -> KeyEffect:
        """Reads the message of the API."""
        return cls(
            input=m.input,
            category=m.category if m.HasField("category") else None,
            missing=m.missing,
            effect=m.effect,
            observations=m.observations,
            output=m.output,
        )


@dataclass(frozen=True)
class LogLossStats:
    """LogLossStats is the mixture of the probabilities of classes by log loss. A row counts its
    weight, at most 1; rows of a new class do not count."""

    #: The sum of the log losses of the mixture.
    loss_sum: float
    #: loss_sum minus the least of the experts.
    regret: float
    #: ln E + ln T of E experts after T rows. regret never exceeds it.
    regret_bound: float
    #: The experts.
    experts: tuple[Expert, ...]

    @classmethod
    def of(cls, m: model_pb2.LogLossStats) -> LogLossStats:
        """Reads the message of the API."""
        return cls(
            loss_sum=m.loss_sum,
            regret=m.regret,
            regret_bound=m.regret_bound,
            experts=tuple(Expert.of(e) for e in m.experts),
        )


@dataclass(frozen=True)
class RecentRegret:
    """RecentRegret is the prequential regret on the newest observations, in their order.
    Observations that a label gate set aside do not count."""

    #: The number of observations. If it is observations, certificate bounds regret where it is
    #: certified, except for a dictionary that grew after the rows of a warm-up.
    observations: int
    #: The sum of the losses.
    loss_sum: float
    #: The least loss of a fixed function, with its penalty: for losses of classes, and within a
    #: range or clip, a lower bound of it by duality.
    hindsight_loss: float
    #: loss_sum - hindsight_loss, never below the exact regret.
    regret: float
    #: How far regret is at most above the exact one: 0 for least squares, else rounding, unless
    #: the problem could not be solved to 1e-10.
    gap: float

    @classmethod
    def of(cls, m: model_pb2.RecentRegret) -> RecentRegret:
        """Reads the message of the API."""
        return cls(
            observations=m.observations,
            loss_sum=m.loss_sum,
            hindsight_loss=m.hindsight_loss,
            regret=m.regret,
            gap=m.gap,
        )


@dataclass(frozen=True)
class ModelStats(ShownStats):
    """ModelStats is how a model is doing. Losses are prequential unless called served, summed over
    the outputs."""

    #: The id of the model.
    model: str
    #: The name of its learner.
    learner: str
    #: The number of observations learned or set aside.
    observations: int
    #: The sum of prequential losses.
    loss_sum: float
    #: performance.prequential.mean_loss. Absent before an evaluated observation.
    mean_loss: Optional[float]
    #: min over w of sum (y - w.z)^2 + lambda |w|^2. During a warm-up, the loss of the best
    #: constants. Behind a label gate of the rows that were learned, summed over the starts.
    #: Absent, like regret, if not tracked.
    hindsight_loss: Optional[float]
    #: loss_sum - hindsight_loss, behind a label gate of the rows that were learned: the price of
    #: not knowing the labels.
    regret: Optional[float]
    #: The regret without the penalty: regret + lambda |g|^2.
    regret_unpenalized: Optional[float]
    #: The guarantee of regret: B^2 log det(A / lambda); for online Newton steps log det(A /
    #: alpha) / (2 eta) times the largest weight. Absent, as certificate, unless certified: see
    #: docs/theory.md for each learner.
    regret_bound: Optional[float]
    #: C = sum y^2 q/(1+q), between regret and guarantee; for online Newton steps sum of weight h
    #: / (2 eta). raker, ada_raker and fogd with track_regret have a certificate of their descent
    #: and no guarantee.
    certificate: Optional[float]
    #: regret <= certificate <= regret_bound up to rounding; for online Newton steps only the
    #: second part. false: the state is corrupt. Absent unless certified.
    certificate_ok: Optional[bool]
    #: The theorem applies to regret, which is prequential: every round's features are fixed
    #: before its label, nothing is forgotten. In the AWV family a round of a weight of 2 or more
    #: adds its own regret to certificate and regret_bound. Served figures with late labels have
    #: served_certificate.
    certified: bool
    #: log det(A / lambda). Absent without A and before the first observation.
    log_determinant: Optional[float]
    #: B, the largest |label| seen, over outputs the root of the sum of squares. Weights divide it
    #: by sqrt(2 - weight) in the AWV family and multiply it by sqrt(weight) in other learners but
    #: auto. The AWV family leaves labels with a weight of 2 or more out of B. Absent while 0 or
    #: unknown, such as during a warm-up.
    label_bound: Optional[float]
    #: The number of features r.
    features: int
    #: Tr(C (C + lambda I)^-1), if requested.
    effective_dimension: Optional[float]
    #: The number of dictionary centres, for learners with a dictionary.
    dictionary: Optional[int]
    #: The number of evaluated observations with a served prediction: see Performance.
    served_observations: int
    #: The sum of their served losses. Absent if there are none.
    served_loss_sum: Optional[float]
    #: Predictions whose label has not come.
    pending_labels: int
    #: Bytes of memory of the learner's state.
    state_bytes: int
    #: SHA-256 of the learner's state, hexadecimal.
    state_digest: str
    #: Durability of acknowledged observations: sync or async.
    durability: str
    #: The sequence of the newest snapshot; 0: none.
    snapshot_sequence: int
    #: The performance over all evaluated observations.
    performance: Optional[Performance]
    #: The performance over the last 1000 to 1050 observations.
    recent: Optional[Performance]
    #: The regret with served losses where a prediction was served. Absent if regret is, and for a
    #: learner that forgets.
    served_regret: Optional[float]
    #: The prediction intervals, one entry per level and output.
    intervals: tuple[IntervalStats, ...]
    #: Detected changes of the loss.
    drift: Optional[Drift]
    #: The experts of auto, or the ridges of a learner with lambdas.
    experts: tuple[Expert, ...]
    #: Statistics of the named inputs.
    inputs: tuple[InputStats, ...]
    #: The performance of a classifier.
    classes: Optional[ClassStats]
    #: The weights of a learner that is affine in its features, or of the parametric part of
    #: semiparametric_awv: at most 100, largest effect first.
    weights: tuple[FeatureWeight, ...]
    #: If requested, the loss in hindsight of the first m features in the learner's order, m = 0
    #: to features, at most 16384. It never rises, and ends with hindsight_loss, with lambdas that
    #: ridge's. Only pkawv_taylor, pkawv_nystrom, fourier_awv, linear_awv, semiparametric_awv and
    #: rlsc; empty until a scaling is known.
    hindsight_path: tuple[float, ...]
    #: semiparametric_awv: the share of sum y^2 - hindsight_loss that the parametric features
    #: explain alone.
    parametric_share: Optional[float]
    #: The label gate, if the model has one.
    label_gate: Optional[LabelGateStats]
    #: auto: the weights of the families of experts in predictions of this state.
    families: tuple[FamilyPart, ...]
    #: If requested, how much each input matters to the trees of auto.
    importances: tuple[InputImportance, ...]
    #: auto: the ten largest effects of keys, by size.
    effects: tuple[KeyEffect, ...]
    #: auto: how the probabilities of classes are mixed.
    log_loss: Optional[LogLossStats]
    #: certificate plus served less prequential losses, a bound of served_regret where certificate
    #: is one of regret. It is known only after the labels. Absent where certificate or
    #: served_regret is.
    served_certificate: Optional[float]
    #: If requested, a bound of the regret against every function of the kernel's space, of which
    #: regret sees only the span of the features: more features lower hindsight_loss by at most
    #: regret_rkhs - regret. It is loose where many inputs are far from the features. Only
    #: pkawv_taylor, pkawv_nystrom and kernel_awv without forgetting, until a label gate starts
    #: anew.
    regret_rkhs: Optional[float]
    #: ada_raker with track_switches: the regret against the best sequence of functions with at
    #: most m switches, m = 0, 1, .... Switches are at the end of 8 to 15 stretches of equal
    #: length.
    switching_regret: tuple[float, ...]
    #: rlsc: the recoding of the next decision.
    recoding: Optional[float]
    #: If requested, the regret on the last 16, 32, 64, ... observations, and last on all that the
    #: log has: at most 16384, fewer with many features. Each is against the best function of the
    #: learner's own features, as computed in their rounds, on these observations alone, with the
    #: learner's loss and ridge; for auto the best function of one of its maps, with ridge 0.01.
    recent_regret: tuple[RecentRegret, ...]

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
            families=tuple(FamilyPart.of(e) for e in m.families),
            importances=tuple(InputImportance.of(e) for e in m.importances),
            effects=tuple(KeyEffect.of(e) for e in m.effects),
            log_loss=LogLossStats.of(m.log_loss) if m.HasField("log_loss") else None,
            served_certificate=m.served_certificate if m.HasField("served_certificate") else None,
            regret_rkhs=m.regret_rkhs if m.HasField("regret_rkhs") else None,
            switching_regret=tuple(m.switching_regret),
            recoding=m.recoding if m.HasField("recoding") else None,
            recent_regret=tuple(RecentRegret.of(e) for e in m.recent_regret),
        )

package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/figures"
)

// modelRow is a metric that every model has. A name may have several rows of one help and kind, which their own
// labels tell apart. A value that is not finite has no series.
type modelRow struct {
	name, help string
	kind       prometheus.ValueType
	labels     prometheus.Labels
	value      func(*figures.Live) float64
}

// A recent figure is over the last `recent` rounds. It has no series before that many rounds:
// no alert can rest on a few rounds, and the figure over all rounds covers them.
const recent = 1000

func modelRows() []modelRow {
	const (
		losses      = "Sum of the losses of evaluated observations, all but the first and those set aside: of prequential or of served predictions."
		baselines   = "Sum of the losses of predictors that ignore the inputs, over the same observations as hindsight_loss_total: mean, the running mean of the labels; last, the last label."
		certificate = "The certificate: a bound of the regret that is computed from the labels seen."
		changes     = "Detected changes of the loss."
		regret      = "Loss of prequential or served predictions minus the loss of the best fixed function, or best expert, in hindsight; during a warm-up of the best constant."
		skill       = "1 - loss / loss of the better baseline."
	)
	prequential, served := prometheus.Labels{"kind": "prequential"}, prometheus.Labels{"kind": "served"}
	direction := func(of string) prometheus.Labels { return prometheus.Labels{"direction": of} }
	return append(classRows(), []modelRow{
		{"hindsight_baseline_loss_total", baselines, counter, baseline("last", "prequential"), func(m *figures.Live) float64 { return baselineLoss(m, m.Whole.Prequential.LastLabel) }},
		{"hindsight_baseline_loss_total", baselines, counter, baseline("last", "served"), func(m *figures.Live) float64 { return baselineLoss(m, m.Served.LastLabel) }},
		{"hindsight_baseline_loss_total", baselines, counter, baseline("mean", "prequential"), func(m *figures.Live) float64 { return baselineLoss(m, m.Whole.Prequential.RunningMean) }},
		{"hindsight_baseline_loss_total", baselines, counter, baseline("mean", "served"), func(m *figures.Live) float64 { return baselineLoss(m, m.Served.RunningMean) }},
		{"hindsight_certificate", certificate, gauge, prequential, func(m *figures.Live) float64 { return m.KnownCertificate }},
		{"hindsight_certificate", certificate, gauge, served, func(m *figures.Live) float64 { return m.ServedCertificate }},
		{"hindsight_certificate_ok", "1 while the regret is consistent, 0 when the state is corrupt.", gauge, nil, func(m *figures.Live) float64 { return Flag(m.CertificateOK) }},
		{"hindsight_drift_detected_total", changes, counter, direction("fall"), func(m *figures.Live) float64 { return float64(m.Drift.Detected - m.Drift.Rises) }},
		{"hindsight_drift_detected_total", changes, counter, direction("rise"), func(m *figures.Live) float64 { return float64(m.Drift.Rises) }},
		{"hindsight_duplicates_total", "Repeated observations: answered and not learned again.", counter, nil, func(m *figures.Live) float64 { return float64(m.Duplicates) }},
		{"hindsight_expired_labels_total", "Predictions whose label did not come in time.", counter, nil, func(m *figures.Live) float64 { return float64(m.Expired) }},
		{"hindsight_follower_behind_observations", "Observations of the followed model that this one has not learned yet.", gauge, nil, func(m *figures.Live) float64 { return known(m.Behind >= 0, float64(m.Behind)) }},
		{"hindsight_labels_set_aside_total", "Observations whose label the label gate set aside.", counter, nil, func(m *figures.Live) float64 { return known(m.Gate.On, float64(m.Gate.SetAside)) }},
		{"hindsight_largest_input_shift", "The largest shift of a named input: the population stability index of the last 512 records against all before. Above 0.1 the input has moved, above 0.25 by much.", gauge, nil, largestShift},
		{"hindsight_learner_starts_total", "Restarts of the learner by the label gate.", counter, nil, func(m *figures.Live) float64 { return known(m.Gate.On, float64(m.Gate.Starts)) }},
		{"hindsight_loss_total", losses, counter, prequential, func(m *figures.Live) float64 { return m.Whole.Prequential.Loss }},
		{"hindsight_loss_total", losses, counter, served, func(m *figures.Live) float64 { return m.Served.Loss }},
		{"hindsight_observations_total", "Observations learned, or set aside by the label gate.", counter, nil, func(m *figures.Live) float64 { return float64(m.Observations) }},
		{"hindsight_pending_labels", "Pending predictions.", gauge, nil, func(m *figures.Live) float64 { return float64(m.Pending) }},
		{"hindsight_pending_labels_limit", "Maximum of pending predictions: the model's limit, else a quarter of --max-pending.", gauge, nil, func(m *figures.Live) float64 { return known(m.PendingLimit > 0, float64(m.PendingLimit)) }},
		{"hindsight_predictions_total", "Predictions answered.", counter, nil, func(m *figures.Live) float64 { return float64(m.Predictions) }},
		{"hindsight_read_only", "1 when the model does not learn: storage failed or the state is corrupt.", gauge, nil, func(m *figures.Live) float64 { return Flag(m.ReadOnly) }},
		{"hindsight_recent_skill", "Served skill over the last 1000 to 1050 evaluated observations; of a classifier, of its errors.", gauge, nil, recentSkill},
		{"hindsight_regret", regret, gauge, prequential, func(m *figures.Live) float64 { return m.Regret }},
		{"hindsight_regret", regret, gauge, served, func(m *figures.Live) float64 { return m.ServedRegret }},
		{"hindsight_regret_bound", "The guarantee of the prequential regret.", gauge, nil, func(m *figures.Live) float64 { return known(m.Certified, m.RegretBound) }},
		{"hindsight_served_observations_total", "Evaluated observations with a served prediction: the divisor of losses with kind=\"served\".", counter, nil, func(m *figures.Live) float64 { return float64(m.Predicted) }},
		{"hindsight_skill", skill, gauge, prequential, func(m *figures.Live) float64 { return m.Whole.Prequential.Skill() }},
		{"hindsight_skill", skill, gauge, served, func(m *figures.Live) float64 { return m.Served.Skill() }},
		{"hindsight_snapshot_timestamp_seconds", "When the newest snapshot was made; without one since the start, when the server took up the model.", gauge, nil, func(m *figures.Live) float64 { return Timestamp(m.SnapshotTime) }},
		{"hindsight_state_bytes", "Memory of the model's state.", gauge, nil, func(m *figures.Live) float64 { return float64(m.StateBytes) }},
		{"hindsight_switching_regret", "ada_raker with track_switches: prequential loss minus the loss of the best sequence of functions, a new one after each of 8 to 15 stretches of equal length.", gauge, nil, func(m *figures.Live) float64 { return m.SwitchingRegret }},
		{"hindsight_unsnapshotted_observations", "Observations since the newest snapshot.", gauge, nil, func(m *figures.Live) float64 { return float64(m.Unsnapshotted) }},
	}...)
}

// recentSkill is the skill of the last `recent` rounds, of a classifier in errors, of other models in losses.
func recentSkill(m *figures.Live) float64 {
	if c := m.ClassAccount; c != nil {
		return known(c.Recent.Observations >= recent, c.Recent.Served.Skill())
	}
	return known(m.Recent.Observations >= recent, m.Recent.Served.Skill())
}

// classRows are the metrics of a classifier. Other models have no series for them.
func classRows() []modelRow {
	const (
		baselines = "Errors of predictors that ignore the inputs: majority, the most frequent class; last, the last class."
		wrong     = "Wrong classes, of all observations but the first: of prequential or of served predictions."
	)
	of := func(value func(*figures.ClassStatistics) float64) func(*figures.Live) float64 {
		return func(m *figures.Live) float64 {
			if m.ClassAccount == nil {
				return math.NaN()
			}
			return value(m.ClassAccount)
		}
	}
	return []modelRow{
		{"hindsight_classifier_baseline_errors_total", baselines, counter, baseline("last", "prequential"), of(func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Last })},
		{"hindsight_classifier_baseline_errors_total", baselines, counter, baseline("last", "served"), of(func(c *figures.ClassStatistics) float64 { return c.Served.Last })},
		{"hindsight_classifier_baseline_errors_total", baselines, counter, baseline("majority", "prequential"), of(func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Majority })},
		{"hindsight_classifier_baseline_errors_total", baselines, counter, baseline("majority", "served"), of(func(c *figures.ClassStatistics) float64 { return c.Served.Majority })},
		{"hindsight_classifier_errors_total", wrong, counter, prometheus.Labels{"kind": "prequential"}, of(func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Errors })},
		{"hindsight_classifier_errors_total", wrong, counter, prometheus.Labels{"kind": "served"}, of(func(c *figures.ClassStatistics) float64 { return c.Served.Errors })},
	}
}

func baseline(of, kind string) prometheus.Labels {
	return prometheus.Labels{"baseline": of, "kind": kind}
}

func baselineLoss(m *figures.Live, loss float64) float64 { return known(m.ClassAccount == nil, loss) }

// largestShift is the largest shift of the inputs whose shift is known, NaN without one.
func largestShift(m *figures.Live) float64 {
	largest := math.NaN()
	for i := range m.Inputs {
		if in := &m.Inputs[i]; in.ShiftKnown && !(in.Shift <= largest) {
			largest = in.Shift
		}
	}
	return largest
}

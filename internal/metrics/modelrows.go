package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/figures"
)

// modelRow is a metric that every model has. A name may have several rows of
// one help and kind, which their own labels tell apart.
type modelRow struct {
	row[*figures.Live]
	together together
	own      prometheus.Labels
}

// together says what the models without series of their own show of a row.
type together int

const (
	// The models that share a series show, of what only grows, the sum of what
	// they have grown.
	growth together = iota
	// Of the rest they show the sum of those that are there. It is not known if
	// one of them is not.
	sum
	// They show the least or the most of those that are known.
	least
	most
	// They show nothing, where one number for several models would say nothing.
	nothing
)

// join takes one more model into what was joined before. It is not for what
// only grows.
func (t together) join(joined, v float64) float64 {
	switch t {
	case sum:
		return joined + v
	case least:
		if finite(v) && (v < joined || !finite(joined)) {
			return v
		}
		return joined
	case most:
		if finite(v) && (v > joined || !finite(joined)) {
			return v
		}
		return joined
	case growth, nothing:
	}
	return math.NaN()
}

// start is what is joined with the first model.
func (t together) start() float64 {
	if t == sum {
		return 0
	}
	return math.NaN()
}

// recent is how many rounds a recent figure is of. It has no series while it
// knows fewer: a few rounds tell nothing that an alert could rest on, and until
// then the figure over all rounds is of the same ones.
const recent = 1000

// modelRows are the metrics of a model, by name and then by their own labels.
func modelRows() []modelRow {
	const (
		losses    = "Sum of the losses of judged observations, all but the first and those set aside: of prequential or of served predictions."
		baselines = "Sum of the losses of predictors that ignore the inputs, over the same observations as hindsight_loss_total: mean, the running mean of the labels; last, the last label."
		changes   = "Detected changes of the loss."
		skill     = "1 - loss / loss of the better baseline."
	)
	own := func(kind string) prometheus.Labels { return prometheus.Labels{labelKind: kind} }
	prequential, served := own("prequential"), own("served")
	of := func(of, kind string) prometheus.Labels {
		return prometheus.Labels{labelBaseline: of, labelKind: kind}
	}
	return append(classRows(), []modelRow{
		{row[*figures.Live]{"hindsight_baseline_loss_total", baselines, counter, func(m *figures.Live) float64 { return baseline(m, m.Whole.Prequential.LastLabel) }}, growth, of("last", "prequential")},
		{row[*figures.Live]{"hindsight_baseline_loss_total", baselines, counter, func(m *figures.Live) float64 { return baseline(m, m.Served.LastLabel) }}, growth, of("last", "served")},
		{row[*figures.Live]{"hindsight_baseline_loss_total", baselines, counter, func(m *figures.Live) float64 { return baseline(m, m.Whole.Prequential.RunningMean) }}, growth, of("mean", "prequential")},
		{row[*figures.Live]{"hindsight_baseline_loss_total", baselines, counter, func(m *figures.Live) float64 { return baseline(m, m.Served.RunningMean) }}, growth, of("mean", "served")},
		{row[*figures.Live]{"hindsight_certificate_ok", "1 while the regret is consistent, 0 when the state is corrupt.", gauge, func(m *figures.Live) float64 { return flag(m.CertificateOK) }}, least, nil},
		{row[*figures.Live]{"hindsight_conflicts_total", "Observations refused because their id has another label, weight or input.", counter, func(m *figures.Live) float64 { return float64(m.Conflicts) }}, growth, nil},
		{row[*figures.Live]{"hindsight_dictionary_centres", "Centres in the dictionary.", gauge, func(m *figures.Live) float64 { return float64(m.Dictionary) }}, sum, nil},
		{row[*figures.Live]{"hindsight_drift_detected_total", changes, counter, func(m *figures.Live) float64 { return float64(m.Drift.Detected - m.Drift.Rises) }}, growth, prometheus.Labels{labelDirection: "fall"}},
		{row[*figures.Live]{"hindsight_drift_detected_total", changes, counter, func(m *figures.Live) float64 { return float64(m.Drift.Rises) }}, growth, prometheus.Labels{labelDirection: "rise"}},
		// Losses and sequences of different models have no common scale.
		{row[*figures.Live]{"hindsight_drift_last_change_sequence", "Estimated sequence of the last change.", gauge, func(m *figures.Live) float64 { return known(m.Drift.Detected > 0, float64(m.Drift.Change)) }}, nothing, nil},
		{row[*figures.Live]{"hindsight_drift_loss_after", "Mean loss after the last change, until it was detected.", gauge, func(m *figures.Live) float64 { return known(m.Drift.Detected > 0, m.Drift.After) }}, nothing, nil},
		{row[*figures.Live]{"hindsight_drift_loss_before", "Mean loss before the last change.", gauge, func(m *figures.Live) float64 { return known(m.Drift.Detected > 0, m.Drift.Before) }}, nothing, nil},
		{row[*figures.Live]{"hindsight_duplicates_total", "Repeated observations: answered and not learned again.", counter, func(m *figures.Live) float64 { return float64(m.Duplicates) }}, growth, nil},
		{row[*figures.Live]{"hindsight_expired_labels_total", "Predictions whose label did not come in time.", counter, func(m *figures.Live) float64 { return float64(m.Expired) }}, growth, nil},
		{row[*figures.Live]{"hindsight_features", "Features of the model.", gauge, func(m *figures.Live) float64 { return float64(m.Features) }}, sum, nil},
		{row[*figures.Live]{"hindsight_follower_behind_observations", "Observations of the followed model that this one has not learned yet.", gauge, func(m *figures.Live) float64 { return known(m.Behind >= 0, float64(m.Behind)) }}, most, nil},
		{row[*figures.Live]{"hindsight_labels_set_aside_total", "Observations whose label the label gate set aside.", counter, func(m *figures.Live) float64 { return known(m.Gate.On, float64(m.Gate.SetAside)) }}, growth, nil},
		{row[*figures.Live]{"hindsight_learner_starts_total", "Restarts of the learner by the label gate.", counter, func(m *figures.Live) float64 { return known(m.Gate.On, float64(m.Gate.Starts)) }}, growth, nil},
		{row[*figures.Live]{"hindsight_loss_total", losses, counter, func(m *figures.Live) float64 { return m.Whole.Prequential.Loss }}, growth, prequential},
		{row[*figures.Live]{"hindsight_loss_total", losses, counter, func(m *figures.Live) float64 { return m.Served.Loss }}, growth, served},
		{row[*figures.Live]{"hindsight_observations_total", "Observations learned, or set aside by the label gate.", counter, func(m *figures.Live) float64 { return float64(m.Observations) }}, growth, nil},
		{row[*figures.Live]{"hindsight_pending_labels", "Pending predictions.", gauge, func(m *figures.Live) float64 { return float64(m.Pending) }}, sum, nil},
		{row[*figures.Live]{"hindsight_pending_labels_limit", "Most pending predictions: the model's limit, else --max-pending.", gauge, func(m *figures.Live) float64 { return known(m.PendingLimit > 0, float64(m.PendingLimit)) }}, sum, nil},
		{row[*figures.Live]{"hindsight_predictions_total", "Predictions answered.", counter, func(m *figures.Live) float64 { return float64(m.Predictions) }}, growth, nil},
		{row[*figures.Live]{"hindsight_queued_observations", "Observations that wait for the model's turn.", gauge, func(m *figures.Live) float64 { return float64(m.Queued) }}, sum, nil},
		{row[*figures.Live]{"hindsight_read_only", "1 when the model does not learn: storage failed or the state is corrupt.", gauge, func(m *figures.Live) float64 { return flag(m.ReadOnly) }}, most, nil},
		{row[*figures.Live]{"hindsight_recent_loss", "Mean loss over the last 1000 to 1050 judged observations: served, else prequential.", gauge, func(m *figures.Live) float64 {
			return known(m.Recent.Observations >= recent, m.Recent.MeanLoss(&m.Recent.Served))
		}}, nothing, nil},
		{row[*figures.Live]{"hindsight_recent_mae", "Mean absolute error over the last 1000 to 1050 judged observations, in the unit of the label.", gauge, func(m *figures.Live) float64 {
			return known(m.Recent.Observations >= recent, m.Recent.MAE(&m.Recent.Served))
		}}, nothing, nil},
		{row[*figures.Live]{"hindsight_recent_rmse", "Root mean squared error over the last 1000 to 1050 judged observations, in the unit of the label.", gauge, func(m *figures.Live) float64 {
			return known(m.Recent.Observations >= recent, m.Recent.RMSE(&m.Recent.Served))
		}}, nothing, nil},
		{row[*figures.Live]{"hindsight_recent_skill", "Skill over the last 1000 to 1050 judged observations.", gauge, func(m *figures.Live) float64 { return known(m.Recent.Observations >= recent, m.Recent.Served.Skill()) }}, least, nil},
		{row[*figures.Live]{"hindsight_largest_input_shift", "The largest hindsight_input_shift of all inputs.", gauge, largestShift}, most, nil},
		// One unknown regret leaves out the sum: the regret of the rest beside
		// the bound of all would look better than it is.
		{row[*figures.Live]{"hindsight_regret", "Prequential loss minus the loss of the best fixed function, or best expert, in hindsight; during a warm-up of the best constant.", gauge, func(m *figures.Live) float64 { return m.Regret }}, sum, nil},
		{row[*figures.Live]{"hindsight_regret_age_observations", "Observations learned since the shown regret was computed; 0 if regret is tracked.", gauge, func(m *figures.Live) float64 { return float64(m.RegretAge) }}, most, nil},
		{row[*figures.Live]{"hindsight_regret_bound", "The guarantee of the regret.", gauge, func(m *figures.Live) float64 { return known(m.Certified, m.RegretBound) }}, sum, nil},
		{row[*figures.Live]{"hindsight_replay_estimate_seconds", "Estimated time to replay the log after the newest snapshot.", gauge, func(m *figures.Live) float64 { return m.Replay.Seconds() }}, sum, nil},
		{row[*figures.Live]{"hindsight_served_observations_total", "Judged observations with a served prediction: the divisor of losses with kind=\"served\".", counter, func(m *figures.Live) float64 { return float64(m.Predicted) }}, growth, nil},
		{row[*figures.Live]{"hindsight_served_regret", "Regret with served losses in place of prequential ones.", gauge, func(m *figures.Live) float64 { return m.ServedRegret }}, sum, nil},
		{row[*figures.Live]{"hindsight_skill", skill, gauge, func(m *figures.Live) float64 { return m.Whole.Prequential.Skill() }}, least, prequential},
		{row[*figures.Live]{"hindsight_skill", skill, gauge, func(m *figures.Live) float64 { return m.Served.Skill() }}, least, served},
		{row[*figures.Live]{"hindsight_snapshot_bytes", "Size of the newest snapshot; absent until one was written or read since the start.", gauge, func(m *figures.Live) float64 { return known(m.SnapshotBytes > 0, float64(m.SnapshotBytes)) }}, most, nil},
		{row[*figures.Live]{"hindsight_snapshot_timestamp_seconds", "When the newest snapshot was made; without one since the start, when the server took up the model.", gauge, func(m *figures.Live) float64 { return timestamp(m.SnapshotMade) }}, least, nil},
		{row[*figures.Live]{"hindsight_state_bytes", "Memory of the model's state.", gauge, func(m *figures.Live) float64 { return float64(m.StateBytes) }}, sum, nil},
		{row[*figures.Live]{"hindsight_unsnapshotted_observations", "Observations since the newest snapshot.", gauge, func(m *figures.Live) float64 { return float64(m.Unsnapshotted) }}, sum, nil},
	}...)
}

// baseline is the loss of a baseline. The baselines of a classifier are beside its errors.
func baseline(m *figures.Live, loss float64) float64 { return known(m.ClassAccount == nil, loss) }

// largestShift is the largest shift of the inputs whose shift is known.
func largestShift(m *figures.Live) float64 {
	v := math.NaN()
	for i := range m.Inputs {
		v = most.join(v, known(m.Inputs[i].ShiftKnown, m.Inputs[i].Shift))
	}
	return v
}

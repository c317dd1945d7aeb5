package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"hindsight/internal/engine/figures"
)

// classRows are the metrics of a classifier, by name and then by their own labels.
// Other models have no series for them.
func classRows() []modelRow {
	const (
		baselines = "Errors of predictors that ignore the inputs: majority, the most frequent class; last, the last class."
		brier     = "Sum of the Brier scores: squared distances between probabilities and the observed class."
		wrong     = "Wrong classes, of all observations but the first: of prequential or of served predictions."
		logLoss   = "Sum of -log of the probability of the observed class, which counts as at least 1e-9."
		skill     = "1 - errors / errors of the better baseline."
	)
	of := func(name, help string, kind prometheus.ValueType, together together, own prometheus.Labels, value func(*figures.ClassStatistics) float64) modelRow {
		return modelRow{row[*figures.Live]{name, help, kind, func(m *figures.Live) float64 {
			if m.ClassAccount == nil {
				return math.NaN()
			}
			return value(m.ClassAccount)
		}}, together, own}
	}
	own := func(kind string) prometheus.Labels { return prometheus.Labels{labelKind: kind} }
	baseline := func(of, kind string) prometheus.Labels { return prometheus.Labels{labelBaseline: of, labelKind: kind} }
	prequential, served := own("prequential"), own("served")
	return []modelRow{
		of("hindsight_classifier_baseline_errors_total", baselines, counter, growth, baseline("last", "prequential"), func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Last }),
		of("hindsight_classifier_baseline_errors_total", baselines, counter, growth, baseline("last", "served"), func(c *figures.ClassStatistics) float64 { return c.Served.Last }),
		of("hindsight_classifier_baseline_errors_total", baselines, counter, growth, baseline("majority", "prequential"), func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Majority }),
		of("hindsight_classifier_baseline_errors_total", baselines, counter, growth, baseline("majority", "served"), func(c *figures.ClassStatistics) float64 { return c.Served.Majority }),
		of("hindsight_classifier_brier_total", brier, counter, growth, prequential, func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Brier }),
		of("hindsight_classifier_brier_total", brier, counter, growth, served, func(c *figures.ClassStatistics) float64 { return c.Served.Brier }),
		of("hindsight_classifier_errors_total", wrong, counter, growth, prequential, func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Errors }),
		of("hindsight_classifier_errors_total", wrong, counter, growth, served, func(c *figures.ClassStatistics) float64 { return c.Served.Errors }),
		of("hindsight_classifier_log_loss_total", logLoss, counter, growth, prequential, func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.LogLoss }),
		of("hindsight_classifier_log_loss_total", logLoss, counter, growth, served, func(c *figures.ClassStatistics) float64 { return c.Served.LogLoss }),
		of("hindsight_classifier_recent_error_rate", "Share of errors over the last 1000 to 1050 observations: served, else prequential.", gauge, most, nil, func(c *figures.ClassStatistics) float64 {
			return known(c.Recent.Observations >= recent, c.Recent.Served.Errors/c.Recent.Observations)
		}),
		of("hindsight_classifier_recent_skill", "Skill over the last 1000 to 1050 observations.", gauge, least, nil, func(c *figures.ClassStatistics) float64 {
			return known(c.Recent.Observations >= recent, c.Recent.Served.Skill())
		}),
		of("hindsight_classifier_skill", skill, gauge, least, prequential, func(c *figures.ClassStatistics) float64 { return c.Whole.Prequential.Skill() }),
		of("hindsight_classifier_skill", skill, gauge, least, served, func(c *figures.ClassStatistics) float64 { return c.Served.Skill() }),
	}
}

package auto_test
import ("testing";"hindsight/internal/model/auto";"hindsight/internal/model")
func TestDump(t *testing.T) {
	n := streamed(t)
	for _, p := range publishedStreams() {
		t.Run(p.name, func(t *testing.T) {
			samples, _ := p.samples(t, n, false)
			o := defaults(len(samples[0].X))
			l := auto.NewSecond(o)
			e, _ := follow(t, l, samples, p.signs)
			t.Log(e, l.Stats().Loss/float64(len(samples)))
			for _, e := range l.Report(model.ReportOptions{}).Experts { t.Logf("%-45s %.5g w %.4f", e.Name, e.Loss/float64(len(samples)), e.Weight) }
		})
	}
}

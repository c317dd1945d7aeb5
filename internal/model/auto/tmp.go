package auto

import (
"os"
"strconv"
)

type advice struct{}

func (o Options) microseconds(p Plan) float64 { return 1 }
func (a *account) regret(experts int) float64  { return a.leads[a.best(experts)].Value() }
func (l *Learner) appendAdvice(dst []float64, s *scratch) []float64 { return dst }

// Base and experts for experiments.
func (l *Learner) Losses() (float64, float64, []float64, []string) {
	a := l.mixers[0].account
	out := []float64{}
	for _, v := range a.losses {
		out = append(out, v.Value())
	}
	return a.loss.Value(), 0, out, l.plan.names()
}
func (l *Learner) Advice() (advice, final, values []float64) {
	return l.own.advice, l.own.final, l.own.values
}

func P(name string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return v
	}
	return otherwise
}

var (
	pSparse = P("SPARSE", 1)
	pLag    = P("LAG", 8)
	pRidge  = P("RIDGE", 0.01)
	pStack  = P("STACK", 3)
ridge = pRidge
stackRidge = pStack
pFour = P("FOUR", 1)
	pGD = P("GD", 1)
)

func (l *Learner) Stats0() int { return int(l.n) }

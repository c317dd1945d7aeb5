package figure_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"hindsight/cmd/research/figure"
)

// drawn draws a chart and returns its texts.
func drawn(t *testing.T, c figure.Chart) (svg string, texts []string) {
	t.Helper()
	var first, second bytes.Buffer
	if err := errors.Join(c.Write(&first), c.Write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same chart gives different bytes")
	}
	d := xml.NewDecoder(strings.NewReader(first.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return first.String(), texts
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			texts = append(texts, strings.TrimSpace(string(text)))
		}
	}
}

// A line that cannot be drawn is left out. The axis is logarithmic from the ratio on,
// and only if it may be.
func TestChart(t *testing.T) {
	c := figure.Chart{Title: "title", X: "rounds", Y: "loss", Ratio: 4, Lines: []figure.Line{
		{Name: "solid", X: []float64{1, 1000, 20000}, Y: []float64{0.3, math.NaN(), 0.004}},
		{Name: "dashed", X: []float64{1, 20000}, Y: []float64{0.02, math.Inf(1)}, Dashed: true},
		{Name: "nothing", X: []float64{1, 2}, Y: []float64{math.NaN(), 0}},
	}}
	svg, texts := drawn(t, c)
	for _, want := range []string{"title", "rounds", "loss", "solid", "dashed", "20,000", "0.005", "0.2"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no %q in %q", want, texts)
		}
	}
	if slices.Contains(texts, "nothing") || strings.Contains(svg, "NaN") || !strings.Contains(svg, "stroke-dasharray") {
		t.Errorf("%q", texts)
	}
	c.Ratio = 0
	if _, texts := drawn(t, c); !slices.Contains(texts, "nothing") || slices.Contains(texts, "0.005") {
		t.Errorf("a linear axis: %q", texts)
	}
	c.Lines = []figure.Line{{Name: "a", X: []float64{0, 1}, Y: []float64{-400, 1500}}}
	if _, texts := drawn(t, c); !slices.Contains(texts, "500") || !slices.Contains(texts, "1,500") {
		t.Errorf("whole numbers: %q", texts)
	}
	c.Powers, c.Lines = true, []figure.Line{{Name: "a", X: []float64{2, 8, 512}, Y: []float64{3, 2, 1}}}
	if _, texts := drawn(t, c); !slices.Contains(texts, "512") || !slices.Contains(texts, "64") {
		t.Errorf("powers of two: %q", texts)
	}
	if _, texts := drawn(t, figure.Chart{Title: "empty"}); !slices.Contains(texts, "empty") {
		t.Errorf("no line: %q", texts)
	}
}

func TestWholeTicks(t *testing.T) {
	var labels []string
	for _, tick := range figure.WholeTicks(-400, 1500) {
		labels = append(labels, tick.Label)
	}
	if want := []string{"0", "500", "1,000", "1,500"}; !slices.Equal(labels, want) {
		t.Errorf("%q, not %q", labels, want)
	}
	if first := figure.WholeTicks(-1100, 100)[0].Label; first != "-1,000" {
		t.Errorf("a negative tick is %q", first)
	}
}

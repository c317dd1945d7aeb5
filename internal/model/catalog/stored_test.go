package catalog_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// storedSpecs are specs of models from before there were revisions.
var storedSpecs = []string{
	`{"dimension": 2, "scaling": {"none": {}}, "linear_awv": {"lambda": 1}}`,
	`{"dimension": 2, "pkawv_taylor": {"degree": 3, "lambda": 1}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "linear_awv": {"lambdas": [0.1, 1], "range": [1, 4]}}`,
	`{"dimension": 2, "fourier_awv": {"lambdas": [0.1, 1], "frequencies": 6, "range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"running": {}}, "fourier_awv": {"lambdas": [0.1, 1], "frequencies": 6, "range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"warmup": {"observations": 20}}, "pkawv_nystrom": {"lambdas": [0.1, 1], "max_dictionary": 9, "history": "window", "history_window": 12, "range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "fourier_awv": {"lambdas": [0.1, 1], "frequencies": 6}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "kernel_awv": {"lambda": 1}}`,
	`{"dimension": 2, "scaling": {"running": {}}, "fourier_kons": {"frequencies": 6, "range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "fourier_kons": {"frequencies": 6}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "pros_n_kons": {"max_dictionary": 9, "range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "kons": {"range": [1, 4]}}`,
	`{"dimension": 2, "scaling": {"none": {}}, "kons": {"range": [1, 4], "gamma": 0.3}}`,
}

// The log of a stored model leads where it led: every prediction has the bits that it
// had, with weights of all sizes too, and without weights so has the state. The state of
// online Newton steps has them with weights too; that of the AWV family has other losses.
func TestStoredModelsKeepTheirBits(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the standard library's sines of the labels have other bits")
	}
	path := filepath.Join("testdata", "stored.txt")
	var now strings.Builder
	for _, spec := range storedSpecs {
		completed, _, err := catalog.Complete(sent(t, []byte(spec)))
		if err != nil {
			t.Fatal(err)
		}
		predictions, digests := sha256.New(), []string{}
		for _, weighted := range []bool{false, true} {
			l, err := catalog.New(completed)
			if err != nil {
				t.Fatal(err)
			}
			for n, s := range modeltest.Samples(71, 2, 250) {
				p, err := modeltest.Predict(l, s.X)
				if err != nil {
					t.Fatal(err)
				}
				_ = binary.Write(predictions, binary.LittleEndian, math.Float64bits(p.Value))
				if s.Weight = 1; weighted {
					s.Weight = []float64{1, 0.5, 1e-4, 30, 2}[n%5]
				}
				if _, err := modeltest.Observe(l, s.X, 2.5+math.Sin(s.Y), s.Weight); err != nil {
					t.Fatal(err)
				}
			}
			state, err := l.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			digest := codec.Digest(state)
			if newton := completed.FourierKONS != nil || completed.ProsNKONS != nil || completed.KONS != nil; !weighted || newton {
				digests = append(digests, hex.EncodeToString(digest[:8]))
			}
		}
		fmt.Fprintf(&now, "%s %s %x %v\n", completed.Name(), spec, predictions.Sum(nil)[:8], digests)
	}
	if *update {
		if err := os.WriteFile(path, []byte(now.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if now.String() != string(want) {
		t.Errorf("got\n%swant\n%s", now.String(), want)
	}
}

// A new model has the newest rules, whose first prediction is the middle of the range of
// its labels; its completed spec says so and is complete. Stored specs stay as they are.
func TestNewModelsPredictTheMiddleFirst(t *testing.T) {
	for _, spec := range storedSpecs {
		given := sent(t, []byte(spec))
		stored, _, err := catalog.Complete(given)
		if err != nil {
			t.Fatal(err)
		}
		completed, _, err := catalog.Create(given)
		if err != nil {
			t.Fatal(err)
		}
		first := func(s model.Spec) float64 {
			l, err := catalog.New(s)
			if err != nil {
				t.Fatal(err)
			}
			p, err := modeltest.Predict(l, []float64{1, 2})
			if err != nil {
				t.Fatal(err)
			}
			return p.Value
		}
		revised := encode(t, completed) != encode(t, stored)
		if strings.Contains(spec, "range") && (first(completed) != 2.5 || !revised) {
			t.Errorf("%s: the first prediction is %g, want the middle of the range, 2.5", encode(t, completed), first(completed))
		}
		if stored.Revision != nil {
			t.Errorf("%s: a stored spec got a revision", spec)
		}
	}
}

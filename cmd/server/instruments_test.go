package main_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// scrape asks for /metrics and decodes the answer.
func (p *process) scrape(t *testing.T, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+"/metrics", http.NoBody))(t)
	request.Header.Set("Accept", accept)
	response := must(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }() // It was only read.
	require.EqualValues(t, http.StatusOK, response.StatusCode)
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/") {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		return must(parser.TextToMetricFamilies(response.Body))(t)
	}
	families := make(map[string]*dto.MetricFamily)
	decoder := expfmt.NewDecoder(response.Body, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		if err := decoder.Decode(f); errors.Is(err, io.EOF) {
			return families
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = f
	}
}

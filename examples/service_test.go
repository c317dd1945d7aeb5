package examples_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decision is what the services answer to a departure.
type decision struct {
	Wait     bool
	Expected *float64
	AtMost   *float64 `json:"at_most"`
}

// The service decides and learns every trip once, though the server is killed and stays away for a while, and though
// the service is killed and its callers repeat requests.
func TestService(t *testing.T) {
	need(t)
	python := withGRPC(t)
	at, journal := free(t), filepath.Join(t.TempDir(), "journal.jsonl")
	s, startServer := restartable(t)
	startService := func() func() {
		c := exec.CommandContext(context.WithoutCancel(t.Context()), python, "service/service.py", at, journal, s.grpc)
		c.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "clients", "python"), "PYTHONDONTWRITEBYTECODE=1")
		_, kill := launch(t, c, "serving")
		return kill
	}
	survive(t, "http://"+at, s, startServer, startService, journal)
}

// withGRPC returns a Python that has grpcio.
func withGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc").Run() == nil {
			return python
		}
	}
	t.Skip("no Python with grpcio: on Debian, apt-get install python3-grpcio")
	return ""
}

// survive sends trips to a service, each arrival five departures later.
func survive(t *testing.T, service string, s server, startServer, startService func() func(), journal string) {
	t.Helper()
	const trips, late = 300, 5
	rows := rowsOf(t, trips+1)
	killServer, killService := startServer(), startService()
	var decisions []decision
	send := func(n int) {
		if n < trips {
			var d decision
			post(t, service+"/departures", rows[n].departure, http.StatusOK, &d)
			decisions = append(decisions[:n], d)
		}
		if n >= late && n-late < trips {
			post(t, service+"/arrivals", rows[n-late].arrival, http.StatusOK, nil)
		}
	}
	for n := range trips + late {
		switch n {
		case 100:
			killServer()
		case 105:
			killServer = startServer()
			settled(t, service, n-late)
		case 200:
			before := decisions[n-1]
			killService()
			torn(t, journal)
			killService = startService()
			send(n - 1) // Its answer may have been lost.
			after := decisions[n-1]
			assert.True(t, *after.AtMost == *before.AtMost && after.Wait == before.Wait, "the repeated departure is answered %v, before %v", after, before)
		}
		send(n)
	}
	settled(t, service, trips)
	killService()
	startService()
	settled(t, service, trips)

	var stats struct {
		Stats struct {
			Observations int `json:",string"`
		}
	}
	get(t, s.http+"/v1/models/connections/stats", &stats)
	assert.EqualValues(t, trips, stats.Stats.Observations)
	waits, kept, blind := 0, 0, 0
	for n, d := range decisions {
		if d.AtMost == nil {
			blind++
		}
		if d.Wait {
			waits++
			if rows[n].delay <= 9 {
				kept++
			}
		}
	}
	assert.True(t, blind >= 5 && blind <= 100 && waits >= 20 && kept >= waits*85/100, "%d decisions without a forecast; %d connections wait, %d of them for long enough", blind, waits, kept)
	post(t, service+"/departures", map[string]any{"trip": "wrong", "inputs": map[string]any{"city": "Oslo"}}, http.StatusBadRequest, nil)
	post(t, service+"/arrivals", map[string]any{"trip": "unknown", "delay": 1}, http.StatusNotFound, nil)
	post(t, service+"/arrivals", map[string]any{"trip": "1", "delay": 99}, http.StatusConflict, nil)
}

// torn leaves a line without an end in a journal, as a power cut does.
func torn(t *testing.T, journal string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Clean(journal), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(`{"trip": "to`)
	}
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// settled waits until a service has taken so many labels to the server.
func settled(t *testing.T, service string, want int) {
	t.Helper()
	var health map[string]int
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if get(t, service+"/healthz", &health); health["settled"] == want {
			return
		}
	}
	t.Fatalf("health %v, want %d settled", health, want)
}

type row struct {
	departure, arrival map[string]any
	delay              float64
}

// rowsOf returns the first trips of trips.csv as requests.
func rowsOf(t *testing.T, count int) []row {
	t.Helper()
	file, err := os.Open("trips.csv")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it is read
	records, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	var rows []row
	for n, r := range records[1 : count+1] {
		id, inputs := strconv.Itoa(n), map[string]any{"at": r[0][:10] + "T" + r[0][11:] + ":00Z", "city": r[1], "rain": r[2] == "yes", "temp": nil}
		if temp, err := strconv.ParseFloat(r[3], 64); err == nil {
			inputs["temp"] = temp
		}
		delay, err := strconv.ParseFloat(r[4], 64)
		require.NoError(t, err)
		rows = append(rows, row{map[string]any{"trip": id, "inputs": inputs}, map[string]any{"trip": id, "delay": delay}, delay})
	}
	return rows
}

func post(t *testing.T, url string, body any, status int, answer any) {
	t.Helper()
	content, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	exchange(t, request, status, answer)
}

func get(t *testing.T, url string, answer any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	exchange(t, request, http.StatusOK, answer)
}

func exchange(t *testing.T, request *http.Request, status int, answer any) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it is read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%v %v", request.URL, text)
	if answer != nil {
		require.NoError(t, json.Unmarshal(text, answer), "%v %v", request.URL, text)
	}
}

package grafana_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"hindsight/deploy/grafana"
)

// The committed files are those of the code, and there are no others.
func TestTheFilesAreCurrent(t *testing.T) {
	var want []string
	for _, d := range grafana.Dashboards() {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("dashboards", d.UID+".json")
		want = append(want, path)
		if committed, err := os.ReadFile(path); err != nil || string(committed) != string(text) {
			t.Errorf("%s is not that of the code (%v); run: make dashboards", path, err)
		}
	}
	files, err := filepath.Glob("dashboards/*")
	slices.Sort(want)
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("there are %v, want %v (%v)", files, want, err)
	}
}

// No panel lies on another one or beyond the grid, and each says what it shows.
func TestThePanelsStandBesideEachOther(t *testing.T) {
	for _, d := range grafana.Dashboards() {
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %d, %q, with %d queries", d.UID, p.ID, p.Title, len(p.Targets))
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %q lies on %q, or beyond the grid, at %d, %d", d.UID, p.Title, other, x, y)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && p.GridPos.W < 4 {
				t.Errorf("%s: %q is %d wide", d.UID, p.Title, p.GridPos.W)
			}
		}
	}
}

// Each recorded series that a panel reads is recorded by the rules.
func TestTheRecordedSeriesAreRecorded(t *testing.T) {
	rules, err := os.ReadFile("../prometheus/hindsight.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	recorded := regexp.MustCompile(`\b\w+:\w+:\w+\b`)
	seen := 0
	for _, d := range grafana.Dashboards() {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, name := range recorded.FindAllString(target.Expr, -1) {
					seen++
					if !regexp.MustCompile(`(?m)record: ` + regexp.QuoteMeta(name) + `$`).Match(rules) {
						t.Errorf("%s: %q reads %s, which no rule records", d.UID, p.Title, name)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no panel reads a recorded series")
	}
}

func ExampleDashboards() {
	for _, d := range grafana.Dashboards() {
		fmt.Println(d.UID, d.Title)
	}
	// Output:
	// hindsight-overview hindsight: overview
	// hindsight-model hindsight: a model
	// hindsight-storage hindsight: storage
	// hindsight-rpc hindsight: calls
}

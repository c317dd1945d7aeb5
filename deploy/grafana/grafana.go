// Package grafana makes the dashboards of the directory dashboards. What a panel shows
// and where it stands is written once here, so that a test can look at every query.
package grafana

import (
	"encoding/json"
	"fmt"
)

// Dashboard is a dashboard as Grafana imports it, schema version 39.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: the same moment in all panels.
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Templating    templating `json:"templating"`
	Links         []link     `json:"links"`
	Panels        []*Panel   `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes.
	Sort       int         `json:"sort,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	Multi      bool        `json:"multi,omitempty"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a panel, or the heading of a row.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Datasource  *datasource `json:"datasource,omitempty"`
	GridPos     gridPos     `json:"gridPos"`
	FieldConfig *fields     `json:"fieldConfig,omitempty"`
	Options     any         `json:"options,omitempty"`
	Targets     []Target    `json:"targets,omitempty"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query of a panel.
type Target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Format       string `json:"format,omitempty"`
	Instant      bool   `json:"instant,omitempty"`
}

type fields struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Unit       string      `json:"unit,omitempty"`
	Min        *float64    `json:"min,omitempty"`
	Max        *float64    `json:"max,omitempty"`
	Custom     any         `json:"custom,omitempty"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
	Mappings   []any       `json:"mappings,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // The first has none.
}

// source is the Prometheus that the reader of the dashboard chooses.
func source() *datasource { return &datasource{"prometheus", "${datasource}"} }

// panel begins a panel; queries are pairs of a query and its legend.
func panel(kind, title, unit, description string, queries ...string) *Panel {
	p := &Panel{
		Type: kind, Title: title, Description: description, Datasource: source(),
		FieldConfig: &fields{Defaults: defaults{Unit: unit}, Overrides: []any{}},
	}
	for n := 0; n+1 < len(queries); n += 2 {
		p.Targets = append(p.Targets, Target{RefID: string(rune('A' + n/2)), Expr: queries[n], LegendFormat: queries[n+1]})
	}
	return p
}

// curves is a panel of curves over time.
func curves(title, unit, description string, queries ...string) *Panel {
	p := panel("timeseries", title, unit, description, queries...)
	p.FieldConfig.Defaults.Custom = map[string]any{"lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": false}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// number is a panel of the newest value, coloured from the limits on: green below the
// first, or red where less is worse.
func number(title, unit, description, query string, colours ...step) *Panel {
	p := panel("stat", title, unit, description, query, "{{instance}}")
	if len(colours) > 0 {
		p.FieldConfig.Defaults.Thresholds = &thresholds{"absolute", colours}
	}
	p.Options = map[string]any{
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}},
		"colorMode":     map[bool]string{true: "value", false: "none"}[len(colours) > 0],
		"graphMode":     "area",
	}
	return p
}

// table is a panel of the newest values, one row for each series of labels.
func table(title, description string, queries ...string) *Panel {
	p := panel("table", title, "", description, queries...)
	for n := range p.Targets {
		p.Targets[n].Format, p.Targets[n].Instant = "table", true
	}
	return p
}

// from is the colour of values from a limit on, and first that of the values below.
func from(colour string, limit float64) step { return step{colour, &limit} }
func first(colour string) step               { return step{colour, nil} }

// share bounds the axis of a share.
func share(p *Panel) *Panel {
	low, high := 0.0, 1.0
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = &low, &high
	return p
}

// The grid of Grafana is 24 wide.
const gridWidth = 24

// row is a heading, and panels of one height below it that share the width.
type row struct {
	title  string
	height int
	panels []*Panel
}

// dashboard lays rows out. A row with too many panels for the width would overlap, which a
// test refuses.
func dashboard(uid, title, description string, variables []variable, rows ...row) Dashboard {
	d := Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"hindsight"},
		SchemaVersion: 39, GraphTooltip: 1, Refresh: "30s", Time: timeRange{"now-6h", "now"},
		Templating: templating{append([]variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}, variables...)},
		Links:      []link{{Title: "hindsight", Type: "dashboards", Tags: []string{"hindsight"}, AsDropdown: true, IncludeVars: true, KeepTime: true}},
	}
	id, y := 0, 0
	place := func(p *Panel, x, w, h int) {
		id++
		p.ID, p.GridPos = id, gridPos{H: h, W: w, X: x, Y: y}
		d.Panels = append(d.Panels, p)
	}
	for _, r := range rows {
		place(&Panel{Type: "row", Title: r.title}, 0, gridWidth, 1)
		y++
		w := gridWidth / len(r.panels)
		for n, p := range r.panels {
			place(p, n*w, w, r.height)
		}
		y += r.height
	}
	return d
}

// query is a variable whose values are those of a label.
func query(name, label, expression string, all bool) variable {
	return variable{
		Name: name, Label: label, Type: "query", Query: expression, Datasource: source(),
		Refresh: 2, Sort: 1, IncludeAll: all, Multi: all,
	}
}

// JSON is the dashboard as the file has it.
func (d *Dashboard) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
	}
	return append(text, '\n'), nil
}

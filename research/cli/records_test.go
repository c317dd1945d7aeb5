package cli_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordStreams makes a directory with tiny streams: two of named columns, one of ten
// classes.
func recordStreams(t *testing.T) string {
	t.Helper()
	var bike, elec, digits strings.Builder
	header := func(b *strings.Builder, inputs int) {
		for i := range inputs {
			fmt.Fprintf(b, "x%d,", i+1)
		}
		b.WriteString("y\n")
	}
	header(&bike, 12)
	header(&elec, 8)
	header(&digits, 4)
	for i := range 300 {
		hour, day := i%24, i/24
		fmt.Fprintf(&bike, "1,0,1,%d,0,%d,%d,1,0.%d,0.2,0.8,0,%d\n", hour, (6+day)%7, day%2, hour+10, 1+hour*hour%50)
		fmt.Fprintf(&elec, "0.%d,%d,0.5,0.1,0.2,0.3,0.4,0.5,%d\n", i, 1+i%7, 1-2*(i%7/4))
		fmt.Fprintf(&digits, "%d,%d,%d,0,%d\n", i%10, (i%10)*(i%10)%16, i%13, i%10)
	}
	dir := t.TempDir()
	for name, b := range map[string]*strings.Builder{"bike": &bike, "elec2": &elec, "digits": &digits} {
		file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(file)
		_, err = z.Write([]byte(b.String()))
		if err := errors.Join(err, z.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The server learns records of named columns and classes with every learner, and
// its predictions are its prequential ones.
func TestRecords(t *testing.T) {
	program, temp, out := server(t), t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	d := document(t, 0, "records", "--server", program, "--data", recordStreams(t), "--out", out)
	figures := make(map[string]any)
	for _, v := range d["entries"].([]any) {
		e := v.(map[string]any)
		setting, _ := e["setting"].(string)
		figures[fmt.Sprintf("%s/%s/%s/%s/%s", e["part"], e["stream"], e["learner"], setting, e["measure"])] = e["value"]
		if e["measure"] == "rejected" {
			t.Errorf("%v", e)
		}
	}
	for key, want := range map[string]float64{
		"beside/bike/auto/named/rows": 300, "beside/bike+dteday/ada_raker/named/rows": 300, "beside/elec2/pkawv_taylor/scaled/rows": 300,
		"digits/digits/rlsc/running/rows": 300, "digits/digits/rlsc/min-max/rows": 300, "reliability/elec2/fogd//rows": 300,
	} {
		if figures[key] != want {
			t.Errorf("%s: %v, want %v", key, figures[key], want)
		}
	}
	// The hour tells the label of bike, the day that of elec2, and the inputs the digit.
	for key, most := range map[string]float64{
		"beside/elec2/linear_awv/named/value": 0.2, "digits/digits/rlsc/running/errors": 0.4, "reliability/elec2/auto//errors": 0.2,
	} {
		if v, ok := figures[key].(float64); !ok || v > most {
			t.Errorf("%s: %v, want at most %v", key, figures[key], most)
		}
	}
	members := 0.0
	for bin := range 10 {
		members += figures[fmt.Sprintf("reliability/elec2/rlsc/%d/members", bin)].(float64)
	}
	if members < 590 || members > 600 {
		t.Errorf("%v probabilities of 300 predictions of two classes", members)
	}
	report := content(t, out, "records.csv")
	if !strings.Contains(report, "inferred,elec2,,class,class,") {
		t.Errorf("%s", report)
	}
	for _, secret := range []string{out, program, temp} {
		if strings.Contains(report, secret) {
			t.Errorf("the report names %s", secret)
		}
	}
	if !isEmpty(t, temp) {
		t.Error("the directory of the server is left")
	}
}

func TestRecordsUsage(t *testing.T) {
	t.Setenv("HINDSIGHT_STREAMS", "")
	t.Chdir(t.TempDir())
	out := filepath.Join(t.TempDir(), "results")
	if r := run(t, "records", "--server", "/nonexistent/server", "--out", out); r.code != 0 || !strings.Contains(r.out, "No stream was run") || !isEmpty(t, out) {
		t.Errorf("%+v", r)
	}
	data := recordStreams(t)
	for want, args := range map[string][]string{
		"--rows -1 is negative":              {"--rows", "-1"},
		"there is no directory /nonexistent": {"--data", "/nonexistent"},
		"give one of them":                   {"--server", "x", "--address", "127.0.0.1:1"},
	} {
		r := run(t, append([]string{"records", "--data", data, "--out", out}, args...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	if r := run(t, "records", "--address", "127.0.0.1:1", "--data", data, "--out", out); r.code != 3 || !isEmpty(t, out) {
		t.Errorf("no server: %+v", r)
	}
}

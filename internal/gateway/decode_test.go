package gateway_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/gateway"
)

// decoded are the messages of FuzzDecode.
func decoded() []proto.Message {
	return []proto.Message{
		&hindsightv1.PredictRequest{}, &hindsightv1.ObserveRequest{}, &hindsightv1.PredictBatchRequest{}, &hindsightv1.ObserveBatchRequest{},
		&hindsightv1.ModelSpec{}, &hindsightv1.Model{},
	}
}

// bodies are JSON of the messages of decoded. Those that are fast need no protojson.
var bodies = []struct {
	kind uint8
	fast bool
	text string
}{
	{0, true, `{"features": [0.1, -2, 3e-7, 4.5E+3, -0, 0, 1e308], "labelTtl": "2s", "remember": false, "predictionId": "p", "minSequence": 18446744073709551615}`},
	{0, true, " {\t\"label_ttl\" : \"0.5s\" ,\r\n\"explain\":true, \"features\" : [ ] } \n"},
	{0, true, `{"inputs": {"city": "Zürich", "load": 1.5, "on": true, "off": false, "gone": null, "v": [1, "a", {}, []], "deep": {"x": {"y": 0}}}}`},
	{0, true, `{"labelTtl": "-0.12345678s"}`},
	{0, true, `{}`},
	{0, true, `{"predictionId": "caf\u00e9 \\ \" \/ \n \ud83d\ude00", "inputs": {"Z\u00fcrich": "\u0000"}}`},
	{1, true, `{"features": [1], "label": 0, "weight": 2, "observationId": "o", "key": "k"}`},
	{1, true, `{"predictionId": "p", "labels": {"values": [1, 2]}}`},
	{1, true, `{"inputs": {}, "class": ""}`},
	{2, true, `{"rows": [{"features": [1, 2]}, {}], "predictionIds": ["a", "b"], "keys": []}`},
	{2, true, `{"inputs": [{"a": 1}, {}]}`},
	{3, true, `{"observations": [{"features": [1], "label": 2}, {"inputs": {"a": "b"}, "class": "c"}]}`},
	{4, true, `{}`},
	// What protojson decodes.
	{0, false, `{"features": ["NaN", "1"]}`},
	{0, false, `{"features": null}`},
	{0, false, `{"minSequence": "7"}`},
	{0, false, `{"labelTtl": "10000000000s"}`},
	{0, false, `{"labelTtl": ".5s"}`},
	{0, false, `{"labelTtl": "+1s"}`},
	{0, false, `{"minSequence": 7e0}`},
	{4, false, `{"dimension": 3, "pkawvTaylor": {"degree": 2}}`},
	{5, false, `{"id": "m", "labels": {"a": "b"}, "createTime": "2020-01-01T00:00:00Z"}`},
	{0, false, `{"inputs": ` + strings.Repeat(`{"a": `, 200) + "1" + strings.Repeat("}", 200) + "}"},
	// What it refuses.
	{0, false, ``},
	{0, false, `[]`},
	{0, false, `{} {}`},
	{0, false, `{"features": [1,]}`},
	{0, false, `{"features": [1 2]}`},
	{0, false, `{"features": [01]}`},
	{0, false, `{"features": [+1]}`},
	{0, false, `{"features": [.5]}`},
	{0, false, `{"features": [1.]}`},
	{0, false, `{"features": [1e]}`},
	{0, false, `{"features": [-]}`},
	{0, false, `{"features": [0x1p4]}`},
	{0, false, `{"features": [1_0]}`},
	{0, false, `{"features": [Inf]}`},
	{0, false, `{"features": [1e999]}`},
	{0, false, `{"features": [1`},
	{0, false, `{"features": [1], "features": [2]}`},
	{0, false, `{"labelTtl": "2s", "label_ttl": "2s"}`},
	{0, false, `{"labelTtl": "2"}`},
	{0, false, `{"labelTtl": "02s"}`},
	{0, false, `{"labelTtl": "1m2s"}`},
	{0, false, `{"labelTtl": "1e3s"}`},
	{0, false, `{"labelTtl": "0.1234567890s"}`},
	{0, false, `{"remember": trueish}`},
	{0, false, `{"remember": "true"}`},
	{0, false, `{"minSequence": -0}`},
	{0, false, `{"minSequence": 18446744073709551616}`},
	{0, false, `{"inputs": {"a": 1, "a": 1}}`},
	{0, false, `{"inputs": {"a": nul}}`},
	{0, false, "{\"key\": \"\n\"}"},
	{0, false, "{\"key\": \"\xff\"}"},
	{0, false, `{"key": "\ud83d"}`},
	{0, false, `{"key": "\x"}`},
	{0, false, `{"key": "\`},
	{0, false, `{"key": "\"}`},
	{0, false, `{"inputs": {"a": 1, "\u0061": 1}}`},
	{0, false, `{"other": 1}`},
	{0, false, `{"": 1}`},
	{1, false, `{"label": 1, "class": "c"}`},
	{1, false, `{"label": "1", "labels": {}}`},
}

func TestDecode(t *testing.T) {
	for _, b := range bodies {
		got, want := decoded()[b.kind], decoded()[b.kind]
		if fast := gateway.DecodeFast([]byte(b.text), got); fast != b.fast {
			t.Errorf("%s: fast is %t", b.text, fast)
		} else if err := protojson.Unmarshal([]byte(b.text), want); fast && (err != nil || !proto.Equal(got, want)) {
			t.Errorf("%s:\ngot  %v\nwant %v, %v", b.text, got, want, err)
		}
	}
}

// FuzzDecode looks for JSON that is decoded otherwise than protojson decodes it.
func FuzzDecode(f *testing.F) {
	for _, b := range bodies {
		f.Add(b.kind, []byte(b.text))
	}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		n := int(kind) % len(decoded())
		got, want := decoded()[n], decoded()[n]
		if !gateway.DecodeFast(text, got) {
			return
		}
		if err := protojson.Unmarshal(text, want); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v, %v", text, got, want, err)
		}
	})
}

// BenchmarkDecode decodes features, a record and a batch, beside protojson.
func BenchmarkDecode(b *testing.B) {
	record := `{"a": 1.25, "city": "Oslo", "b": -0.625, "c": 17, "d": true, "e": 0.1, "f": 0.2, "g": "red", "h": 4e3, "i": 12.5}`
	row := `{"features": [0.1234567, -0.9876543, 0.5, 0.25, 0.33333333, -0.1, 0.7, 0.8123, 0.99, 0.4], "label": 0.5}`
	for _, c := range []struct {
		name, text string
		into       proto.Message
	}{
		{"features", `{"features": [0.1234567, -0.9876543, 0.5, 0.25, 0.33333333, -0.1, 0.7, 0.8123, 0.99, 0.4], "labelTtl": "2s"}`, &hindsightv1.PredictRequest{}},
		{"record", `{"inputs": ` + record + `}`, &hindsightv1.PredictRequest{}},
		{"batch", `{"observations": [` + strings.Repeat(row+",", 127) + row + `]}`, &hindsightv1.ObserveBatchRequest{}},
	} {
		b.Run(c.name+"/own", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !gateway.DecodeFast([]byte(c.text), c.into.ProtoReflect().New().Interface()) {
					b.Fatal(c.text)
				}
			}
		})
		b.Run(c.name+"/protojson", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := protojson.Unmarshal([]byte(c.text), c.into.ProtoReflect().New().Interface()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

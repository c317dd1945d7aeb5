package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
	"hindsight/internal/jsonerror"
)

const (
	maxSpec   = 64 << 20
	specUsage = "the spec as JSON; @FILE reads a file, @- standard input"
)

func learners() []string {
	fields := (&hindsightv1.ModelSpec{}).ProtoReflect().Descriptor().Oneofs().ByName("learner").Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	slices.Sort(names)
	return names
}

func (f *flagSet) spec(spec *string) {
	f.StringVar(spec, "spec", "", specUsage+" (required)")
	var specs []string
	for _, name := range learners() {
		specs = append(specs, `{"dimension": 2, "`+name+`": {}}`)
	}
	f.fixed("spec", specs)
}

func (e *env) spec(text string) (*hindsightv1.ModelSpec, error) {
	if text == "" {
		return nil, command.Usagef("--spec is missing")
	}
	raw, err := e.argument(text)
	if err != nil {
		return nil, command.Usagef("spec: %w", err)
	}
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal(raw, spec); err != nil {
		return nil, command.Usagef("spec: %s", jsonerror.Explain(raw, spec.ProtoReflect().Descriptor(), err))
	}
	return spec, nil
}

// argument is the JSON of a flag: the text itself, or the content of the file behind "@".
func (e *env) argument(text string) ([]byte, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return []byte(text), nil
	}
	in := e.Stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	if err == nil && len(raw) > maxSpec {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSpec)
	}
	return raw, err
}

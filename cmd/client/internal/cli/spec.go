package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
	"hindsight/internal/nearest"
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
		return nil, command.Usagef("spec: %s", specMistake(err))
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

// oneLine removes the special characters that protojson puts into its errors.
func oneLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(s, "proto: ")
}

// specMistake describes a mistake in the JSON of a spec. To an unknown field it adds the field
// that was meant, and to learner, which is no field, the learners.
func specMistake(err error) string {
	text := oneLine(err)
	unknown := regexp.MustCompile(`unknown field "([^"]*)"`).FindStringSubmatch(text)
	if unknown == nil {
		return text
	}
	if unknown[1] == "learner" {
		return fmt.Sprintf(`%s; the name of the learner is the field, as in {"dimension": 2, "auto": {}}: %s`, text, strings.Join(learners(), ", "))
	}
	names := make(map[protoreflect.FullName][]string)
	fields((&hindsightv1.ModelSpec{}).ProtoReflect().Descriptor(), names)
	var owners []string
	for message, of := range names {
		if slices.Contains(of, unknown[1]) {
			owners = append(owners, string(message.Name()))
		}
	}
	if len(owners) > 0 {
		slices.Sort(owners)
		return fmt.Sprintf("%s here; it is a field of %s", text, strings.Join(owners, ", "))
	}
	return text + nearest.Meant(unknown[1], slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(names))...))))
}

func fields(md protoreflect.MessageDescriptor, names map[protoreflect.FullName][]string) {
	if _, known := names[md.FullName()]; known {
		return
	}
	names[md.FullName()] = nil
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		names[md.FullName()] = append(names[md.FullName()], string(fd.Name()))
		if fd.Message() != nil {
			fields(fd.Message(), names)
		}
	}
}

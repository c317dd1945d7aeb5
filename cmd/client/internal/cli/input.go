package cli

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/cmd/internal/command"
	"hindsight/internal/jsonerror"
)

type inputFlags struct {
	model, features, inputs string
}

func (i *inputFlags) add(f *flagSet) {
	f.model(&i.model)
	f.StringVar(&i.features, "features", "", "the input as comma-separated numbers")
	f.StringVar(&i.inputs, "inputs", "", "the input by names, a JSON object; @FILE reads a file, @- standard input")
}

// input parses the input: the features of --features, or the record of --inputs. The model is
// --model or the argument.
func (i *inputFlags) input(e *env, args []string) (features []float64, record *structpb.Struct, err error) {
	switch {
	case (i.model == "") == (len(args) == 0):
		return nil, nil, command.Usagef("give the model once: its id as the argument or as --model")
	case i.model == "":
		i.model = args[0]
	}
	switch {
	case i.inputs != "" && i.features != "":
		return nil, nil, command.Usagef("--inputs and --features exclude each other")
	case i.inputs != "":
		raw, err := e.argument(i.inputs)
		if err != nil {
			return nil, nil, command.Usagef("inputs: %w", err)
		}
		record = new(structpb.Struct)
		if err := protojson.Unmarshal(raw, record); err != nil {
			return nil, nil, command.Usagef("inputs: %s", jsonerror.Explain(raw, record.ProtoReflect().Descriptor(), err))
		}
		return nil, record, nil
	case i.features != "":
		features, err = numbers("feature", strings.Split(i.features, ","))
		return features, nil, err
	}
	return nil, nil, nil
}

func numbers(name string, texts []string) ([]float64, error) {
	x := make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, command.Usagef("%s %d: %q is out of range", name, i+1, text)
		case err != nil:
			return nil, command.Usagef("%s %d: %q is not a number", name, i+1, text)
		}
		x[i] = v
	}
	return x, nil
}

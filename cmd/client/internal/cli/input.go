package cli

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// inputFlags are the flags that give the model and the input of a call.
type inputFlags struct {
	model, features, inputs string
}

func (i *inputFlags) add(f *flagSet) {
	f.model(&i.model)
	f.StringVar(&i.features, "features", "", "the input as comma-separated numbers")
	f.StringVar(&i.inputs, "inputs", "", "the input by names, a JSON object; @FILE reads a file, @- standard input")
}

// input parses the input: features, from --features or from the arguments, or a record from
// --inputs. Without --model the first argument is the model, unless it is a number. Without an
// input, given is false.
func (i *inputFlags) input(e *env, args []string) (input client.Input, given bool, err error) {
	if i.model == "" && len(args) > 0 && !isNumber(args[0]) {
		i.model, args = args[0], args[1:]
	}
	switch {
	case i.model == "":
		return input, false, command.Usagef("the model is missing: give its id as the first argument or --model")
	case i.features != "" && len(args) > 0:
		return input, false, command.Usagef("features are given twice: as --features and as arguments")
	case i.inputs != "" && (i.features != "" || len(args) > 0):
		return input, false, command.Usagef("--inputs and features exclude each other")
	case i.inputs != "":
		raw, err := e.argument(i.inputs)
		if err != nil {
			return input, false, command.Usagef("inputs: %w", err)
		}
		record := new(structpb.Struct)
		if err := protojson.Unmarshal(raw, record); err != nil {
			return input, false, command.Usagef("inputs: want a JSON object: %s", oneLine(err))
		}
		return client.Record(record), true, nil
	case i.features != "":
		args = strings.Split(i.features, ",")
	}
	features, err := numbers("feature", args)
	return client.Features(features...), len(features) > 0, err
}

// numbers parses numbers. Errors call them name.
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

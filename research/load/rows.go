package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// Row is an observation: an input, as features or as a record, and its label.
type Row struct {
	Features []float64
	Inputs   *structpb.Struct
	// Labels has one number for each output, or Class is the class.
	Labels []float64
	Class  string
}

// Classes is the number of classes that Rows draws.
const Classes = 4

// The deviation of the noise in a label, and the number of categories of an input.
const (
	noise      = 0.1
	categories = 8
)

// Rows draws observations for a completed spec. Features are uniform in [-1, 1]. A label is a
// function of the features plus noise; the sign of this for a loss of signs; or one of four
// classes. The values of named inputs are of their kinds.
func Rows(spec *hindsightv1.ModelSpec, count int, seed uint64) []Row {
	draw := rand.New(rand.NewPCG(seed, 0))
	signs := strings.Contains(spec.String(), "LOSS_LOGISTIC") || strings.Contains(spec.String(), "HINGE")
	rows := make([]Row, count)
	for n := range rows {
		row := &rows[n]
		sum := 0.0
		if inputs := spec.GetInputs(); len(inputs) > 0 {
			row.Inputs = &structpb.Struct{Fields: map[string]*structpb.Value{}}
			for _, input := range inputs {
				value, size := drawn(input, draw)
				row.Inputs.Fields[input.GetName()] = value
				sum += size
			}
			sum /= math.Sqrt(float64(len(inputs)))
		} else {
			row.Features = make([]float64, spec.GetDimension())
			for i := range row.Features {
				row.Features[i] = 2*draw.Float64() - 1
				sum += math.Sin(3 * row.Features[i])
			}
			sum /= math.Sqrt(float64(len(row.Features)))
		}
		y := sum + noise*draw.NormFloat64()
		switch {
		case spec.GetClasses() != nil:
			row.Class = fmt.Sprintf("class %d", int(math.Abs(2*y))%Classes)
		case signs:
			row.Labels = repeated(math.Copysign(1, y), spec)
		default:
			row.Labels = repeated(y, spec)
		}
	}
	return rows
}

// repeated returns the label y for each output.
func repeated(y float64, spec *hindsightv1.ModelSpec) []float64 {
	labels := make([]float64, max(1, spec.GetOutputs()))
	for i := range labels {
		labels[i] = y
	}
	return labels
}

// drawn draws a value of a named input, and a number for the label to depend on.
func drawn(input *hindsightv1.Input, draw *rand.Rand) (value *structpb.Value, size float64) {
	x := 2*draw.Float64() - 1
	switch kind := input.GetKind().(type) {
	case *hindsightv1.Input_Boolean:
		return structpb.NewBoolValue(x > 0), x
	case *hindsightv1.Input_Categorical:
		category := draw.IntN(categories)
		return structpb.NewStringValue(fmt.Sprintf("category %d", category)), float64(category) / categories
	case *hindsightv1.Input_Time:
		at := time.Unix(int64(1.7e9+x*1e7), 0).UTC()
		return structpb.NewStringValue(at.Format(time.RFC3339)), x
	case *hindsightv1.Input_Vector:
		list := &structpb.ListValue{}
		for range kind.Vector.GetLength() {
			list.Values = append(list.Values, structpb.NewNumberValue(2*draw.Float64()-1))
		}
		return structpb.NewListValue(list), x
	default:
		return structpb.NewNumberValue(x), x
	}
}

// Observation is the observation of the row: of a prediction, or of the row's input if the id is empty.
func (r *Row) Observation(prediction string) *hindsightv1.ObserveRequest {
	o := &hindsightv1.ObserveRequest{PredictionId: prediction}
	if prediction == "" {
		o.Features, o.Inputs = r.Features, r.Inputs
	}
	switch {
	case r.Class != "":
		o.Target = client.Class(r.Class)
	case len(r.Labels) == 1:
		o.Target = client.Label(r.Labels[0])
	default:
		o.Target = client.Labels(r.Labels...)
	}
	return o
}

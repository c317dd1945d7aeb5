package engine

import "errors"

// ErrUnknown says that it is not known whether an observation is durable.
var ErrUnknown = errors.New("it is not known whether the observation is durable; send it again under its id")

// ExportOptions say what an export carries.
type ExportOptions struct {
	// WithoutIDs leaves out the remembered ids and the predictions that wait.
	WithoutIDs bool
}

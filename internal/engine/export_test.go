package engine

// Decoders of what the store gives back, for the fuzz targets.
var (
	AppendRecord  = appendRecord
	DecodeRecord  = decodeRecord
	DecodeSeen    = decodeSeen
	DecodePending = decodePending
	DecodeAccount = decodeAccount
	DecodeEntry   = decodeEntry
)

// Forms that the decoders read.
type (
	Record      = record
	Stored      = observation
	ServedThere = served
)

// Hibernate lets a model go, and tells whether it is gone.
func (e *Engine) Hibernate(id string) bool {
	i, err := e.find(id)
	return err == nil && i.hibernate()
}

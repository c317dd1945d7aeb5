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

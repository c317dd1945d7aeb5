package rpc

// The translation of specs, which the API shows only after defaults are
// filled in.
var (
	SpecFromProto = specFromProto
	SpecToProto   = specToProto
)

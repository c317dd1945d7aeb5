package figures

// NameInputs and NameEffects name what a report says of features.
var (
	NameInputs  = nameInputs
	NameEffects = nameEffects
)

package loops

// The Go twins.
var (
	RotateGo    = rotateGo
	AxpyGo      = axpyGo
	DotGo       = dotGo
	ScaleGo     = scaleGo
	CombineGo   = combineGo
	DescendGo   = descendGo
	DistancesGo = distancesGo
	ReachGo     = reachGo
	CollectGo   = collectGo
)

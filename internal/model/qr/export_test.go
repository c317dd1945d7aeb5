package qr

// The inner loops, and their Go twins.
var (
	Rotate   = rotate
	RotateGo = rotateGo
	Axpy     = axpy
	AxpyGo   = axpyGo
	Dot      = dot
	DotGo    = dotGo
)

package qr

// The inner loops, and their Go twins.
var (
	Rotate   = rotate
	RotateGo = rotateGo
	Axpy     = axpy
	AxpyGo   = axpyGo
)

// Package join joins errors.
package join

import "errors"

// Join is the function of the standard library.
var Join = errors.Join

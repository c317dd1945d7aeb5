// Package oserror names errors of files.
package oserror

import (
	"errors"
	"io/fs"
	"os"
)

// Errors of the standard library.
var (
	ErrInvalid    = fs.ErrInvalid
	ErrPermission = fs.ErrPermission
	ErrExist      = fs.ErrExist
	ErrNotExist   = fs.ErrNotExist
	ErrClosed     = fs.ErrClosed
)

// IsPermission reports whether a permission is missing. Package errors unwraps, and package os knows more errors.
func IsPermission(err error) bool { return errors.Is(err, ErrPermission) || os.IsPermission(err) }

// IsExist reports whether a file exists already.
func IsExist(err error) bool { return errors.Is(err, ErrExist) || os.IsExist(err) }

// IsNotExist reports whether a file is missing.
func IsNotExist(err error) bool { return errors.Is(err, ErrNotExist) || os.IsNotExist(err) }

package storage

import "errors"

// OldestFormat is the oldest format that this program reads and writes: the format of the previous program.
const OldestFormat uint32 = 6

// Format is the newest format that this program reads and writes. A change of the bytes of a record, a command, a
// snapshot or a key raises Format. The program writes the changed bytes only into a store whose format has them; see
// Formats. Tests of upgrades raise it in processes of the next version.
var Format = OldestFormat //nolint:gochecknoglobals // A constant to this program.

// ErrNewer says that a newer program wrote the bytes.
var ErrNewer = errors.New("storage: a newer version of the program wrote it")

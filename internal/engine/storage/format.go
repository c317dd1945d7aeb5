package storage

import "errors"

const (
	// OldestFormat is the oldest format that this program reads and writes: the format of the previous program.
	OldestFormat uint32 = 6
	// Format is the newest format that this program reads and writes. A change of the bytes of a record, a command, a
	// snapshot or a key raises Format. The program writes the changed bytes only into a store whose format has them; see
	// Formats.
	Format = OldestFormat + ahead
)

// ErrNewer says that a newer program wrote the bytes.
var ErrNewer = errors.New("storage: a newer version of the program wrote it")

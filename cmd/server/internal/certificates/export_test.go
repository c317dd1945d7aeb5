package certificates

// Look reads the files, as Run does once an interval.
func (k *Keeper) Look() { k.look() }

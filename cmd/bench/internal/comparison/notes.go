package comparison

// notes are what a reader needs to compare the numbers of a stream.
func notes(string) []string {
	return nil
}

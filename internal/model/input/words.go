package input

// countWords adds the words of a value to the features of their buckets, and log(1 + words) to the
// last feature. It allocates nothing.
func (v *Value) countWords(out []float64) {
	buckets, total := out[:len(out)-1], 0.0
	var room [32]byte
	text := v.text
	if v.kind != Text {
		text = string(v.appendText(room[:0]))
	}
	for at := 0; at < len(text); {
		h, n := uint64(hashOfNothing), 0
		for ; at < len(text) && inWord(text[at]); at++ {
			c := text[at]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			h = withByte(h, c)
			n++
		}
		if at++; n == 0 {
			continue
		}
		bucket, _ := bucketOf(finished(h), len(buckets))
		buckets[bucket]++
		total++
	}
	out[len(buckets)] = symmetricLog1p(total)
}

// inWord tells whether a byte is part of a word.
func inWord(c byte) bool {
	return c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

package input

// Only the first mostWords words of a text have tokens.
const mostWords = 512

// countWords adds the words of a value to the features of their buckets, and log(1 + words) to the
// last feature. It writes the tokens of words and pairs to tokens, which is empty without tokens. Equal words of two
// texts have different tokens: the place of the text among the texts enters the hash.
func (v *Value) countWords(out, tokens []float64, place uint64) {
	buckets, words := out[:len(out)-1], 0
	var room [32]byte
	text := v.text
	if v.kind != Text {
		text = string(v.appendText(room[:0]))
	}
	pair := uint64(hashOfNothing) // The hash of the previous word and a space.
	for at := 0; at < len(text); {
		h, n := uint64(hashOfNothing), 0
		for ; at < len(text) && inWord(text[at]); at++ {
			c := text[at]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			h, pair = withByte(h, c), withByte(pair, c)
			n++
		}
		if at++; n == 0 {
			continue
		}
		bucket, _ := bucketOf(finished(h), len(buckets))
		buckets[bucket]++
		if words < len(tokens)/2 {
			tokens[words] = tokenOf(h, place)
			if words > 0 {
				tokens[len(tokens)/2+words-1] = tokenOf(pair, place)
			}
		}
		words++
		pair = withByte(h, ' ')
	}
	out[len(buckets)] = symmetricLog1p(float64(words))
}

// tokenOf returns the token of the hash of a word or a pair. The place of the text is part of the token, so that
// one word in two texts has two tokens.
func tokenOf(h, place uint64) float64 { return float64(keyOf(finished(h + place))) }

func inWord(c byte) bool {
	return c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

package input

// Hash is the hash of a category; see the package.
func Hash[T string | []byte](text T) uint64 {
	h := uint64(hashOfNothing)
	for i := range len(text) {
		h = withByte(h, text[i])
	}
	return finished(h)
}

const hashOfNothing = 14695981039346656037

func withByte(h uint64, b byte) uint64 { return (h ^ uint64(b)) * 1099511628211 }

func finished(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func bucketOf(h uint64, buckets int) (bucket int, sign float64) {
	sign = 1
	if h&1 == 1 {
		sign = -1
	}
	return int((h >> 1) % uint64(buckets)), sign
}

// keyBits is how many bits of a hash are a key: floats have such integers and their differences.
const (
	keyBits  = 52
	keyBound = 1 << keyBits // keys < keyBound
	noText   = "\xff"       // Of a missing value: no category has this text, which is not UTF-8.
)

// keyOf is the key of a hash: its highest bits, and never 0.
func keyOf(h uint64) uint64 { return max(h>>(64-keyBits), 1) }

// key is the key of a category. A missing category has a key too.
func (v *Value) key() uint64 {
	if v.kind == Missing {
		return keyOf(Hash(noText))
	}
	return keyOf(v.hash())
}

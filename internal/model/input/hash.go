package input

// Hash is the hash of a category; see the package.
func Hash[T string | []byte](text T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// bucketOf is the bucket and the sign of a hash.
func bucketOf(h uint64, buckets int) (bucket int, sign float64) {
	sign = 1
	if h&1 == 1 {
		sign = -1
	}
	return int((h >> 1) % uint64(buckets)), sign
}

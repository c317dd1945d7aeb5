package loops

import "cmp"

// Smallest is the k-th smallest value, from 0. It reorders the values, in linear time on
// average: a sort costs several times as much.
//
// Source: Hoare, Communications of the ACM 4 (1961), Algorithm 65.
func Smallest[T cmp.Ordered](values []T, k int) T {
	for low, high := 0, len(values)-1; low < high; {
		pivot, i, j := values[low+(high-low)/2], low, high
		for i <= j {
			for values[i] < pivot {
				i++
			}
			for values[j] > pivot {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return values[k]
		}
	}
	return values[k]
}

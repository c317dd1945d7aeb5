package logloss

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/effects"
)

// traits say what a row is about and what came before: its keys, the class of the row before, and the class of the last
// row with each key. A trait is a word of texts. Two keys, a key and the class before, and a key and its last class are
// a pair. A late label teaches the traits that its row had when it was predicted.
type traits struct {
	// last are the class of the row before and the class of the last row with each key, plus 1, or 0 without one.
	last []float64
	// keys are the words of the keys, noTrait of a missing one.
	keys []uint64
	// words and pairs are hashes.
	words, pairs []uint64
}

const (
	mostTraits = 8 // Keys with traits.
	noTrait    = 0
)

func (o Options) traitKeys() int { return min(len(o.Keys), mostTraits) }

func (o Options) lasts() int {
	if !o.Traits {
		return 0
	}
	return 1 + o.traitKeys()
}

// hashed is a hash of two numbers. It is not noTrait.
func hashed(a, b uint64) uint64 { return max(1, effects.Permute((a+1)*0x9e3779b97f4a7c15^b)) }

// present writes the keys of a row, the class of the row before, and the last class of each key.
func (l *Level) present(s *traits, x []float64) {
	s.last[0] = l.before
	for i, input := range l.o.Keys[:len(s.keys)] {
		s.keys[i], s.last[1+i] = noTrait, 0
		if v := x[input]; v != 0 {
			s.keys[i] = hashed(uint64(i), math.Float64bits(v))
			s.last[1+i] = l.texts.lastClass(s.keys[i])
		}
	}
}

// describe writes the words and the pairs of the keys and the classes.
func (s *traits) describe() {
	s.words, s.pairs = s.words[:0], s.pairs[:0]
	for i, key := range s.keys {
		s.add(key)
		if last := s.last[1+i]; key != noTrait && last > 0 {
			s.pairs = append(s.pairs, hashed(key, uint64(last)))
		}
	}
	for i, last := range s.last {
		if last > 0 {
			word := hashed(uint64(mostTraits+i), uint64(last))
			if i == 0 {
				s.add(word)
			} else {
				s.words = append(s.words, word)
			}
		}
	}
}

// add appends a word, and a pair of this word and each earlier word.
func (s *traits) add(word uint64) {
	if word == noTrait {
		return
	}
	for _, other := range s.words {
		s.pairs = append(s.pairs, hashed(other, word))
	}
	s.words = append(s.words, word)
}

// follow remembers the class as the last class of the keys of a row.
func (l *Level) follow(s *traits, class int, weight float64) {
	if weight < model.Light || len(s.last) == 0 {
		return
	}
	l.before = float64(class + 1)
	for _, key := range s.keys {
		if key != noTrait {
			l.texts.last[l.texts.at[l.texts.word(key)]] = uint32(class + 1)
		}
	}
}

// lastClass is the class of the last row with a word, plus 1. It is 0 if no row had the word.
func (t *texts) lastClass(word uint64) float64 {
	if place, known := t.at[t.word(word)]; known {
		return float64(t.last[place])
	}
	return 0
}

// word and pair are the tokens of hashes.
func (t *texts) word(hash uint64) uint32 { return uint32(hash % uint64(t.buckets)) }
func (t *texts) pair(hash uint64) uint32 { return t.buckets + t.word(hash) }

// visitLast visits the last classes, of traits alone.
func (l *Level) visitLast(v *codec.Visitor, classes int) {
	if !l.o.Traits {
		return
	}
	v.Within(float64(classes), &l.before)
	for i := range l.texts.last {
		last := &l.texts.last[i]
		if v.Uint32(last); v.Reading() && *last > uint32(classes) {
			v.Corrupt("class %d of %d", *last, classes)
			return
		}
	}
	if v.Reading() && (l.before < 0 || l.before != math.Trunc(l.before)) {
		v.Corrupt("class %g before", l.before)
	}
}

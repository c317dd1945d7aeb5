package input

import (
	"unicode/utf8"

	"hindsight/internal/model/codec"
)

// texts has the texts of the keys that were observed last. There are at most most of them, with
// at most textBytes(most) bytes: the least recently observed leave first.
type texts struct {
	most   int
	places map[uint64]int32
	// The entries are a list from the oldest to the newest, and a list of free entries that
	// begins with free and continues with newer.
	entries              []entry
	oldest, newest, free int32
	// bytes is Σ len(text), counts the number of texts of each input.
	bytes  uint64
	counts []uint32
}

// entry is a text with its neighbours in the list, none at the ends.
type entry struct {
	text         string
	tag          uint64
	older, newer int32
}

const (
	none int32 = -1
	// The nominal size of an entry beside its text, in bytes.
	sizeOfText = 64
	// How many bits of a tag are the place of the input: maxInputs <= 2^inputBits.
	inputBits = 12
	// How many bytes the mean of the texts may have.
	meanText = 32
)

// textBytes bounds the bytes of so many texts. One text always has room.
func textBytes(texts int) uint64 { return max(meanText*uint64(texts), maxText) }

func newTexts(most, inputs int) *texts {
	return &texts{most: most, places: make(map[uint64]int32), oldest: none, newest: none, free: none, counts: make([]uint32, inputs)}
}

func tagOf(input int, key uint64) uint64 { return key<<inputBits | uint64(input) }

func inputOf(tag uint64) int { return int(tag & (1<<inputBits - 1)) }

func (t *texts) size() uint64 {
	return sizeOfText*uint64(len(t.places)) + t.bytes + 4*uint64(len(t.counts))
}

// learn makes the text of a value the newest, and returns whether the key of the value had a
// text. Of two texts with one key the first remains. It allocates for a new key alone.
func (t *texts) learn(input int, v *Value) (known bool) {
	tag := tagOf(input, v.key())
	if at, known := t.places[tag]; known {
		if at != t.newest {
			t.unlink(at)
			t.link(at)
		}
		return true
	}
	t.add(tag, string(v.appendText(nil)))
	return false
}

// add adds a text as the newest. Oldest texts leave until all have room.
func (t *texts) add(tag uint64, text string) {
	for len(t.places) >= t.most || t.bytes+uint64(len(text)) > textBytes(t.most) {
		t.drop(t.oldest)
	}
	at := t.free
	if at == none {
		at = int32(len(t.entries))
		t.entries = append(t.entries, entry{})
	} else {
		t.free = t.entries[at].newer
	}
	t.entries[at].tag, t.entries[at].text = tag, text
	t.places[tag] = at
	t.bytes += uint64(len(text))
	t.counts[inputOf(tag)]++
	t.link(at)
}

func (t *texts) drop(at int32) {
	t.unlink(at)
	e := &t.entries[at]
	delete(t.places, e.tag)
	t.bytes -= uint64(len(e.text))
	t.counts[inputOf(e.tag)]--
	*e = entry{newer: t.free}
	t.free = at
}

func (t *texts) unlink(at int32) {
	e := &t.entries[at]
	if e.older == none {
		t.oldest = e.newer
	} else {
		t.entries[e.older].newer = e.newer
	}
	if e.newer == none {
		t.newest = e.older
	} else {
		t.entries[e.newer].older = e.older
	}
}

func (t *texts) link(at int32) {
	e := &t.entries[at]
	e.older, e.newer = t.newest, none
	if t.newest == none {
		t.oldest = at
	} else {
		t.entries[t.newest].newer = at
	}
	t.newest = at
}

// Key is a category of an input, as an effect names it.
type Key struct {
	// Input is the place of the input, Text the text of the category, empty if it is Missing or
	// not Known. Known: the category is missing, or its text is remembered.
	Input          int
	Text           string
	Known, Missing bool
}

// KeyOf is what a key stands for that a feature had. It fails if the feature is no key. It costs
// O(inputs).
func (e *Encoder) KeyOf(feature int, key uint64) (Key, bool) {
	for i := range e.schema.fields {
		f := &e.schema.fields[i]
		if !f.hasKey || f.key() != feature {
			continue
		}
		k := Key{Input: i}
		at, known := e.texts.places[tagOf(i, key)]
		switch {
		case key == keyOf(Hash(noText)):
			k.Known, k.Missing = true, true
		case known:
			k.Known, k.Text = true, e.texts.entries[at].text
		}
		return k, true
	}
	return Key{}, false
}

func (e *Encoder) visitTexts(v *codec.Visitor) {
	t := e.texts
	if t == nil || v.Err() != nil {
		return
	}
	n := uint32(len(t.places))
	// A text takes 4 bytes at least.
	if v.Uint32(&n); v.Reading() && (int(n) > t.most || int(n) > v.Left()/4) {
		v.Corrupt("%d texts of keys", n)
	}
	if v.Err() != nil {
		return
	}
	at := t.oldest
	for range n {
		if v.Err() != nil {
			return
		}
		var place, length uint16
		var text string
		if !v.Reading() {
			entry := &t.entries[at]
			place, text, at = uint16(inputOf(entry.tag)), entry.text, entry.newer
			length = uint16(len(text))
		}
		v.Uint16(&place)
		v.Uint16(&length)
		v.Text(&text, int(length))
		if v.Reading() {
			e.restoreText(v, int(place), text)
		}
	}
	for i := range e.inputs {
		f, l := &e.schema.fields[i], &e.inputs[i]
		kept := uint64(t.counts[i])
		if v.Reading() && (kept > e.n-l.missing || (f.kind == keyed && kept > l.outside)) {
			v.Corrupt("%d texts of keys of input %q", kept, f.name)
		}
	}
}

func (e *Encoder) restoreText(v *codec.Visitor, place int, text string) {
	t := e.texts
	if place >= len(e.inputs) || !e.schema.fields[place].hasKey || len(text) > maxText || !utf8.ValidString(text) {
		v.Corrupt("a text of a key that cannot be")
		return
	}
	tag := tagOf(place, keyOf(Hash(text)))
	if _, twice := t.places[tag]; twice || t.bytes+uint64(len(text)) > textBytes(t.most) {
		v.Corrupt("texts of keys that cannot be together")
		return
	}
	t.add(tag, text)
}

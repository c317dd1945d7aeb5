package effects

// table holds the keys by their hashes, at most limit of them. A key that is added to a full
// table takes the slot of the key that was learned least recently. Memory grows a page of
// slots at a time.
//
// A slot has stride numbers: see Options.stride.
type table struct {
	limit, stride int
	pages         []page
	// used is the number of slots with a key, from slot 0.
	used int
	// index has slot + 1 of each key where its probe ends: linear probing from the hash. Its
	// length is a power of two and at least twice used.
	index []uint32
	// oldest and newest are the ends of the order in which keys were learned.
	oldest, newest int32
}

// page has pageSlots slots.
type page struct {
	links   []link
	numbers []float64
}

// link is a key in the order in which keys were learned.
type link struct {
	hash uint64
	// seen is the number of observations before the last one with the key.
	seen         uint64
	older, newer int32
}

const (
	pageSlots  = 64
	leastIndex = 2 * pageSlots
	none       = int32(-1)
)

func newTable(limit, stride int) table {
	return table{limit: limit, stride: stride, oldest: none, newest: none}
}

func (t *table) link(slot int32) *link { return &t.pages[slot/pageSlots].links[slot%pageSlots] }

func (t *table) numbers(slot int32) []float64 {
	return t.pages[slot/pageSlots].numbers[int(slot%pageSlots)*t.stride:][:t.stride]
}

// find is the slot of a hash, or none.
func (t *table) find(hash uint64) int32 {
	if len(t.index) == 0 {
		return none
	}
	slot := t.index[t.probe(hash)]
	return int32(slot) - 1
}

// probe is where the index has the hash, or the free place where the probe ends.
func (t *table) probe(hash uint64) int {
	mask := len(t.index) - 1
	at := int(hash) & mask
	for t.index[at] != 0 && t.link(int32(t.index[at])-1).hash != hash {
		at = (at + 1) & mask
	}
	return at
}

// touch makes a key the newest.
func (t *table) touch(slot int32, seen uint64) {
	t.link(slot).seen = seen
	if slot == t.newest {
		return
	}
	t.unlink(slot)
	t.append(slot)
}

func (t *table) unlink(slot int32) {
	l := t.link(slot)
	if l.older == none {
		t.oldest = l.newer
	} else {
		t.link(l.older).newer = l.newer
	}
	if l.newer == none {
		t.newest = l.older
	} else {
		t.link(l.newer).older = l.older
	}
}

func (t *table) append(slot int32) {
	l := t.link(slot)
	l.older, l.newer = t.newest, none
	if t.newest == none {
		t.oldest = slot
	} else {
		t.link(t.newest).newer = slot
	}
	t.newest = slot
}

// add adds a hash that the table does not have as the newest key. The numbers of its slot are 0.
func (t *table) add(hash, seen uint64) int32 {
	slot := int32(t.used)
	if t.used == t.limit {
		slot = t.oldest
		t.remove(slot)
		clear(t.numbers(slot))
	} else {
		t.grow()
	}
	l := t.link(slot)
	l.hash, l.seen = hash, seen
	t.append(slot)
	t.index[t.probe(hash)] = uint32(slot) + 1
	return slot
}

// grow makes room for a key and a place of the index for it.
func (t *table) grow() {
	if t.used == pageSlots*len(t.pages) {
		t.pages = append(t.pages, page{make([]link, pageSlots), make([]float64, pageSlots*t.stride)})
	}
	t.used++
	if 2*t.used <= len(t.index) {
		return
	}
	t.index = make([]uint32, max(leastIndex, 2*len(t.index)))
	for slot := range int32(t.used - 1) {
		t.index[t.probe(t.link(slot).hash)] = uint32(slot) + 1
	}
}

// remove takes a key out of the index and of the order. The keys behind its place move up to
// where their probes find them.
func (t *table) remove(slot int32) {
	t.unlink(slot)
	mask, free := len(t.index)-1, t.probe(t.link(slot).hash)
	for at := (free + 1) & mask; t.index[at] != 0; at = (at + 1) & mask {
		home := int(t.link(int32(t.index[at])-1).hash) & mask
		if (at-home)&mask >= (at-free)&mask {
			t.index[free], free = t.index[at], at
		}
	}
	t.index[free] = 0
}

func tableBytes(used, stride int) uint64 {
	pages := (used + pageSlots - 1) / pageSlots
	index := 0
	for used > 0 && index < 2*used {
		index = max(leastIndex, 2*index)
	}
	return uint64(pages)*uint64(pageSlots*(24+8*stride)+48) + 4*uint64(index)
}

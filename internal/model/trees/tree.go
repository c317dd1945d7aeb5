package trees

import "math"

// node is a node of a tree, 8 bytes. A row goes left if its input is at most the cut point. The bits of
// the cut point and the input of a leaf are what the leaf says.
type node struct {
	cut   float32
	input uint16
	// left is the left child; the right child follows. 0 marks a leaf.
	left uint16
}

// tree is a tree of a ring. Children stand behind their parent.
type tree struct {
	nodes []node
	// size is the number of nodes, at least 1.
	size int
}

// newTree is the tree 0, with space for leaves.
func newTree(leaves int) tree {
	most := 2*leaves - 1
	return tree{nodes: make([]node, most), size: 1}
}

func (t *tree) clear() {
	t.nodes[0], t.size = node{}, 1
}

func (t *tree) copy(u *tree) {
	t.size = u.size
	copy(t.nodes, u.nodes[:u.size])
}

// leaf is a leaf that says a value, a multiple of 2⁻³² that 48 bits can hold.
func leaf(value int64) node {
	return node{cut: math.Float32frombits(uint32(value >> 16)), input: uint16(value)}
}

func (n *node) value() int64 { return int64(int32(math.Float32bits(n.cut)))<<16 | int64(n.input) }

// leafIDs is the number of values of a byte that numbers a node, of which maxNodes are used.
const leafIDs = 256

// leafRoom is the number of numbers that leaves takes as scratch.
const leafRoom = maxNodes * block / 8

// said is what each leaf says, by node.
func (t *tree) said() (values [leafIDs]int64) {
	for i, n := range t.nodes[:t.size] {
		if n.left == 0 {
			values[i] = n.value()
		}
	}
	return values
}

// number is 1 for true. The compiler makes no branch of it.
func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// leavesGo writes the leaf of every slot. A row goes left at a node if its code is at most splits of
// the node. There are slots codes an input.
func leavesGo(ids []uint8, t *tree, splits []int16, codes []uint8, slots int) {
	for slot := range ids {
		i := 0
		for {
			n := &t.nodes[i]
			if n.left == 0 {
				break
			}
			split := splits[i]
			i = int(n.left)
			if int16(codes[int(n.input)*slots+slot]) > split {
				i++
			}
		}
		ids[slot] = uint8(i)
	}
}

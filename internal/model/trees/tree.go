package trees

// node is a node of a tree, 8 bytes. A row goes left if its input is at most the cut point.
type node struct {
	cut   float32
	input uint16
	// left is the left child; the right child follows. 0 marks a leaf.
	left uint16
}

// tree is a tree of a ring. Children stand behind their parent.
type tree struct {
	nodes []node
	// values are the values of the leaves, multiples of 2⁻³², by node.
	values []int64
	// present says that all cut points were present when the tree was made, and still are.
	present bool
	// size is the number of nodes, at least 1.
	size int
}

// newTree is the tree 0, with space for leaves.
func newTree(leaves int) tree {
	most := 2*leaves - 1
	return tree{nodes: make([]node, most), values: make([]int64, most), present: true, size: 1}
}

// clear makes the tree 0.
func (t *tree) clear() {
	t.nodes[0], t.values[0], t.size, t.present = node{}, 0, 1, true
}

// copy makes t equal to u.
func (t *tree) copy(u *tree) {
	t.size, t.present = u.size, u.present
	copy(t.nodes, u.nodes[:u.size])
	copy(t.values, u.values[:u.size])
}

// leaf is the leaf of a row.
func (t *tree) leaf(row []float32) int {
	nodes, i := t.nodes, 0
	for {
		n := &nodes[i]
		if n.left == 0 {
			return i
		}
		i = int(n.left)
		if row[n.input] > n.cut {
			i++
		}
	}
}

// sumTrees is Σ f_j(row).
func sumTrees(trees []tree, row []float32) int64 {
	sum := int64(0)
	for j := range trees {
		t := &trees[j]
		sum += t.values[t.leaf(row)]
	}
	return sum
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

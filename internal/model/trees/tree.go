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

// said is what each leaf says, by node.
func (t *tree) said() (values [leafIDs]int64) {
	for i, n := range t.nodes[:t.size] {
		if n.left == 0 {
			values[i] = n.value()
		}
	}
	return values
}

// next is the node after node own for a row, or own of a leaf. It has no branch to predict.
func (n *node) next(own int, row []float32) int {
	input := n.input
	if n.left == 0 {
		input = 0
	}
	next := int(n.left) + number(row[input] > n.cut)
	if n.left == 0 {
		next = own
	}
	return next
}

// number is 1 for true. The compiler makes no branch of it.
func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// sumTrees is Σ f_j(row). Eight trees descend at a time, for each step waits for the node before it.
func sumTrees(trees *[Trees]tree, row []float32) int64 {
	sum := int64(0)
	for first := 0; first < Trees; first += 8 {
		t := (*[8]tree)(trees[first:])
		a, b, c, d := t[0].nodes, t[1].nodes, t[2].nodes, t[3].nodes
		e, f, g, h := t[4].nodes, t[5].nodes, t[6].nodes, t[7].nodes
		var i, j, k, l, m, n, o, p int
		for a[i].left|b[j].left|c[k].left|d[l].left|e[m].left|f[n].left|g[o].left|h[p].left != 0 {
			i, j, k, l = a[i].next(i, row), b[j].next(j, row), c[k].next(k, row), d[l].next(l, row)
			m, n, o, p = e[m].next(m, row), f[n].next(n, row), g[o].next(o, row), h[p].next(p, row)
		}
		sum += a[i].value() + b[j].value() + c[k].value() + d[l].value()
		sum += e[m].value() + f[n].value() + g[o].value() + h[p].value()
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

package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Path leads to one value within a JSON document: member names and array indices, separated by dots.
type Path struct {
	text     string
	segments []string
}

// ParsePath reads a path such as data.order.id or orders.1.id. A segment that is a number without leading zeros indexes an
// array, from 0, or names a member of an object, whichever is found. A dot within a name is written \. and a backslash \\.
// Every other character means itself: there are no patterns, so order* is the member of that very name. Empty segments
// are refused.
func ParsePath(s string) (Path, error) {
	if s == "" {
		return Path{}, errors.New("the path is empty")
	}
	p := Path{text: s}
	var seg strings.Builder
	finish := func() error {
		if seg.Len() == 0 {
			return fmt.Errorf("the path %q has an empty segment", s)
		}
		p.segments = append(p.segments, seg.String())
		seg.Reset()
		return nil
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '.':
			if err := finish(); err != nil {
				return Path{}, err
			}
		case '\\':
			i++
			if i == len(s) || (s[i] != '.' && s[i] != '\\') {
				return Path{}, fmt.Errorf("the path %q has a backslash that escapes neither a dot nor a backslash", s)
			}
			seg.WriteByte(s[i])
		default:
			seg.WriteByte(c)
		}
	}
	if err := finish(); err != nil {
		return Path{}, err
	}
	return p, nil
}

// String gives the path as it was written.
func (p Path) String() string { return p.text }

// prefix names the first n segments, as a path.
func (p Path) prefix(n int) string {
	escape := strings.NewReplacer(`\`, `\\`, `.`, `\.`)
	parts := make([]string, n)
	for i, s := range p.segments[:n] {
		parts[i] = escape.Replace(s)
	}
	return strings.Join(parts, ".")
}

// arrayIndex reads a segment as the index of an array.
func arrayIndex(segment string) (int, bool) {
	n, err := strconv.Atoi(segment)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == segment
}

// pathTree holds every path that is read from one kind of message, so that one pass over a value finds them all. It is
// read-only once it is built.
type pathTree struct {
	root  *pathNode
	paths []Path // by slot
}

// pathNode is one value on the way to, or at the end of, some path.
type pathNode struct {
	slot     int // where the value goes, or -1
	members  map[string]*pathNode
	elements map[int]*pathNode
}

func newPathTree() *pathTree { return &pathTree{root: newPathNode()} }

func newPathNode() *pathNode { return &pathNode{slot: -1} }

// add gives the slot of a path; two spellings of one path share it.
func (t *pathTree) add(p Path) int {
	node := t.root
	for _, seg := range p.segments {
		next := node.members[seg]
		if next == nil {
			next = newPathNode()
			if node.members == nil {
				node.members = make(map[string]*pathNode)
			}
			node.members[seg] = next
			if i, ok := arrayIndex(seg); ok {
				if node.elements == nil {
					node.elements = make(map[int]*pathNode)
				}
				node.elements[i] = next
			}
		}
		node = next
	}
	if node.slot < 0 {
		node.slot = len(t.paths)
		t.paths = append(t.paths, p)
	}
	return node.slot
}

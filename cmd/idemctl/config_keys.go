package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// keyTree is the tree of known configuration keys, read off Config's tags, so that a key exists exactly if a field does.
type keyTree struct {
	children map[string]*keyTree // of a section
	each     *keyTree            // of a section whose names the user chooses: handlers, machines
	typ      reflect.Type        // of a value
	secret   string
}

func configKeys() *keyTree { return treeOf(reflect.TypeFor[Config]()) }

func treeOf(t reflect.Type) *keyTree {
	if t.Kind() != reflect.Struct {
		return &keyTree{typ: t}
	}
	node := &keyTree{children: map[string]*keyTree{}, typ: t}
	for f := range t.Fields() {
		name := f.Tag.Get("koanf")
		if name == "" {
			continue
		}
		child := treeOf(f.Type)
		if f.Type.Kind() == reflect.Map {
			child = &keyTree{each: treeOf(f.Type.Elem()), typ: f.Type}
		}
		child.secret = f.Tag.Get("secret")
		node.children[name] = child
	}
	return node
}

func (k *keyTree) isSection() bool { return k.children != nil || k.each != nil }

func (k *keyTree) child(name string) *keyTree {
	if k.each != nil {
		return k.each
	}
	return k.children[name]
}

// names are the keys below this node, sorted; where the user chooses them there are none to list.
func (k *keyTree) names() []string { return slices.Sorted(maps.Keys(k.children)) }

// leaves calls fn with every value's key. chosen are the names to stand in for a section whose names the user chooses.
func (k *keyTree) leaves(prefix string, chosen []string, fn func(key string, leaf *keyTree)) {
	join := func(name string) string {
		if prefix == "" {
			return name
		}
		return prefix + "." + name
	}
	if k.each != nil {
		for _, name := range chosen {
			k.each.leaves(join(name), nil, fn)
		}
		return
	}
	for _, name := range k.names() {
		c := k.children[name]
		if c.isSection() {
			c.leaves(join(name), chosen, fn)
			continue
		}
		fn(join(name), c)
	}
}

// checkKeys refuses what a file holds and nobody knows: P4, a mistyped `retension` must not silently mean the default.
// where turns a key into "file:line".
func (k *keyTree) checkKeys(m map[string]any, prefix string, where func(key string) string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		key := name
		if prefix != "" {
			key = prefix + "." + name
		}
		if k.each != nil && !chosenName(name) {
			return usageErrorf("%s: %s name %q: letters, digits, _ and - only", where(key), strings.TrimSuffix(prefix, "s"), name)
		}
		c := k.child(name)
		if c == nil {
			return usageErrorf("%s: unknown key %q%s", where(key), key, k.suggest(prefix, name))
		}
		sub, isMap := m[name].(map[string]any)
		switch {
		case !c.isSection() && isMap:
			return usageErrorf("%s: key %q is a value, not a section", where(key), key)
		case c.isSection() && isMap:
			if err := c.checkKeys(sub, key, where); err != nil {
				return err
			}
		case c.isSection() && m[name] != nil:
			return usageErrorf("%s: key %q is a section, not a value%s", where(key), key, c.listed())
		case !c.isSection() && m[name] != nil:
			if want := c.mismatch(m[name]); want != "" {
				return usageErrorf("%s: key %q: expected %s", where(key), key, want)
			}
		}
	}
	return nil
}

// mismatch says what a value of the file should have been, or nothing where it is what it should be. The value itself is
// not repeated: it may be a password that YAML took for a number.
func (k *keyTree) mismatch(v any) string {
	_, isText := v.(string)
	switch {
	case k.typ == reflect.TypeFor[time.Duration]():
		if !isText {
			return "a duration with its unit, such as 250ms, 2m, 24h or 30d"
		}
	case k.typ.Kind() == reflect.String:
		if !isText {
			return "text; put it in quotes"
		}
	case k.typ.Kind() == reflect.Bool:
		if _, ok := v.(bool); !ok {
			return "true or false"
		}
	case k.typ.Kind() == reflect.Int:
		if _, ok := v.(int); !ok {
			return "a whole number"
		}
	case k.typ.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return "a list, such as [a, b]"
		}
		for _, item := range list {
			if _, ok := item.(string); !ok {
				return "a list of texts; put each in quotes"
			}
		}
	}
	return ""
}

func (k *keyTree) suggest(prefix, name string) string {
	if near, ok := nearest(name, k.names()); ok {
		if prefix != "" {
			near = prefix + "." + near
		}
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return k.listed()
}

func (k *keyTree) listed() string {
	if len(k.children) == 0 {
		return ""
	}
	return "; known here: " + strings.Join(k.names(), ", ")
}

func chosenName(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune(keyAlphabet, r) {
			return false
		}
	}
	return s != ""
}

const keyAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

const envPrefix = "IDEMCTL_"

// envName is the variable that sets a key: ledger.table_prefix is IDEMCTL_LEDGER_TABLE_PREFIX.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

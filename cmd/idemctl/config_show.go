package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// shownKey is one key as config show prints it: its secrets hidden.
type shownKey struct {
	Key    string
	Value  any // string, bool, int or []string
	Origin string
}

func (k shownKey) text() string {
	if list, ok := k.Value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(k.Value)
}

// shown lists the keys that have a value, in the order of the file's sections.
func (c *Config) shown() []shownKey {
	var keys []shownKey
	collect(reflect.ValueOf(*c), "", func(key, secret string, v reflect.Value) {
		if v.IsZero() {
			return
		}
		keys = append(keys, shownKey{Key: key, Value: shownValue(v, secret), Origin: c.origins.of(key).String()})
	})
	return keys
}

func collect(v reflect.Value, prefix string, fn func(key, secret string, v reflect.Value)) {
	for f := range v.Type().Fields() {
		name := f.Tag.Get("koanf")
		if name == "" {
			continue
		}
		key := strings.TrimPrefix(prefix+"."+name, ".")
		field := v.FieldByIndex(f.Index)
		switch field.Kind() {
		case reflect.Struct:
			collect(field, key, fn)
		case reflect.Map:
			names := field.MapKeys()
			slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, name := range names {
				collect(field.MapIndex(name), key+"."+name.String(), fn)
			}
		default:
			fn(key, f.Tag.Get("secret"), field)
		}
	}
}

func shownValue(v reflect.Value, secret string) any {
	switch secret {
	case "all":
		return hidden
	case "dsn":
		return mysqlx.Redact(v.String())
	case "url":
		return redactURL(v.String())
	}
	if d, ok := reflect.TypeAssert[time.Duration](v); ok {
		return formatDuration(d)
	}
	return v.Interface()
}

// toTree nests keys as the file does, for JSON. With origins, each value becomes {"value", "origin"}.
func toTree(keys []shownKey, origin bool) map[string]any {
	tree := map[string]any{}
	for _, k := range keys {
		at := tree
		parts := strings.Split(k.Key, ".")
		for _, p := range parts[:len(parts)-1] {
			sub, ok := at[p].(map[string]any)
			if !ok {
				sub = map[string]any{}
				at[p] = sub
			}
			at = sub
		}
		v := k.Value
		if origin {
			v = map[string]any{"value": k.Value, "origin": k.Origin}
		}
		at[parts[len(parts)-1]] = v
	}
	return tree
}

// toYAML writes keys as a configuration file; with origins, each has a comment that says where it was set.
func toYAML(keys []shownKey, origin bool) (string, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{"": root}
	for _, k := range keys {
		parts := strings.Split(k.Key, ".")
		parent := root
		for i := 1; i < len(parts); i++ {
			path := strings.Join(parts[:i], ".")
			if sections[path] == nil {
				sections[path] = &yaml.Node{Kind: yaml.MappingNode}
				parent.Content = append(parent.Content, keyNode(parts[i-1]), sections[path])
			}
			parent = sections[path]
		}
		value := &yaml.Node{}
		if err := value.Encode(k.Value); err != nil {
			return "", fmt.Errorf("write %s: %w", k.Key, err)
		}
		if value.Kind == yaml.SequenceNode {
			value.Style = yaml.FlowStyle
		}
		if origin {
			value.LineComment = k.Origin
		}
		parent.Content = append(parent.Content, keyNode(parts[len(parts)-1]), value)
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	const indent = 2
	enc.SetIndent(indent)
	if err := enc.Encode(root); err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return b.String(), nil
}

func keyNode(name string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
}

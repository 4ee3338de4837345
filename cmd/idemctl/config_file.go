package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

const configName = "idemctl.yaml"

// findConfig returns the configuration file to read: the one asked for, which must exist, else ./idemctl.yaml, else the
// one in the user's configuration folder, else none.
func findConfig(asked, configHome string) (string, error) {
	if asked != "" {
		if _, err := os.Stat(asked); err != nil {
			return "", usageErrorf("configuration file: %w", err)
		}
		return asked, nil
	}
	candidates := []string{configName}
	if configHome != "" {
		candidates = append(candidates, filepath.Join(configHome, "idemctl", configName))
	}
	for _, c := range candidates {
		switch _, err := os.Stat(c); {
		case err == nil:
			return c, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", usageErrorf("configuration file: %w", err)
		}
	}
	return "", nil
}

// yamlFile is a parser that remembers at which line each key stands, and leaves dates as they are written: as text, since
// the zone they are meant in is not known here.
type yamlFile struct {
	path  string
	lines map[string]int
}

// Unmarshal implements koanf.Parser.
func (y *yamlFile) Unmarshal(b []byte) (map[string]any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", y.path, err)
	}
	m := map[string]any{}
	if len(doc.Content) == 0 {
		return m, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return m, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: expected sections (ledger, redis, kafka, handlers, machines) at the top", y.path)
	}
	y.note(root, "")
	if err := doc.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %w", y.path, err)
	}
	return m, nil
}

// Marshal implements koanf.Parser.
func (y *yamlFile) Marshal(m map[string]any) ([]byte, error) {
	b, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write yaml: %w", err)
	}
	return b, nil
}

func (y *yamlFile) note(n *yaml.Node, prefix string) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			y.note(c, prefix)
		}
		return
	}
	const pair = 2 // a mapping's content is key, value, key, value
	for i := 0; i+1 < len(n.Content); i += pair {
		key := n.Content[i].Value
		if prefix != "" {
			key = prefix + "." + key
		}
		y.lines[key] = n.Content[i].Line
		y.note(n.Content[i+1], key)
	}
}

// where names the place of a key in the file.
func (y *yamlFile) where(key string) string {
	if line, ok := y.lines[key]; ok {
		return fmt.Sprintf("%s:%d", y.path, line)
	}
	return y.path
}

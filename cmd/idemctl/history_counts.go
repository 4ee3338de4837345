package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// countsInShort is a run's counts in one line: numbers by their names, lists by their length, what is 0 or empty left out.
// What a command counts is its own affair, so this reads whatever is there, one level deep and the objects in it.
func countsInShort(doc json.RawMessage) string {
	var parts []string
	eachMember(doc, func(name string, value json.RawMessage) {
		if len(value) > 0 && value[0] == '{' {
			eachMember(value, func(name string, value json.RawMessage) { parts = appendCount(parts, name, value) })
			return
		}
		parts = appendCount(parts, name, value)
	})
	return strings.Join(parts, ", ")
}

func appendCount(parts []string, name string, value json.RawMessage) []string {
	var list []json.RawMessage
	var number json.Number
	switch {
	case json.Unmarshal(value, &list) == nil:
		if len(list) > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, len(list)))
		}
	case len(value) > 0 && value[0] != '"' && json.Unmarshal(value, &number) == nil && strings.Trim(number.String(), "0.") != "":
		parts = append(parts, name+" "+number.String())
	}
	return parts
}

// eachMember calls fn for the members of an object in the order in which they stand there; anything else has none.
func eachMember(doc json.RawMessage, fn func(name string, value json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return
		}
		fn(fmt.Sprint(name), value)
	}
}

// documentLines shows a document under its name, indented; none at all is not shown.
func documentLines(name string, doc json.RawMessage) []string {
	if len(doc) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		return []string{name + ": " + string(doc)}
	}
	return append([]string{name + ":"}, strings.Split(b.String(), "\n")...)
}

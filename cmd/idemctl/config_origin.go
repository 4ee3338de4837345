package main

import "fmt"

// source orders where values come from: a later one wins.
type source uint8

const (
	fromDefault source = iota
	fromFile
	fromEnv
	fromFlag
)

// origin says where one key's value was set.
type origin struct {
	source source
	name   string // of the file and line, the variable or the flag
}

func (o origin) String() string {
	switch o.source {
	case fromFile:
		return "file " + o.name
	case fromEnv:
		return "environment " + o.name
	case fromFlag:
		return "flag " + o.name
	case fromDefault:
		return "default"
	}
	return fmt.Sprintf("source %d", o.source)
}

type origins map[string]origin

// of returns where a key was set; a key nobody set is a default.
func (o origins) of(key string) origin { return o[key] }

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/idemctl/idemctl/pkg/ledger"
)

var errMachineTwice = errors.New("file and the declaration in place exclude each other")

// spec reads the declaration, from its file or in place, and validates it.
func (m *MachineConfig) spec() (ledger.MachineSpec, error) {
	if m.File == "" {
		transitions, err := ledger.ParseTransitions(m.Transitions)
		if err != nil {
			return ledger.MachineSpec{}, err
		}
		spec := ledger.MachineSpec{BizType: m.BizType, States: m.States, Transitions: transitions, Terminal: m.Terminal}
		if err := spec.Validate(); err != nil {
			return ledger.MachineSpec{}, err
		}
		return spec, nil
	}
	if m.BizType != "" || len(m.States)+len(m.Transitions)+len(m.Terminal) > 0 {
		return ledger.MachineSpec{}, errMachineTwice
	}
	text, err := os.ReadFile(m.File)
	if err != nil {
		return ledger.MachineSpec{}, err
	}
	spec, err := ledger.ParseMachine(text)
	if err != nil {
		return spec, fmt.Errorf("%s: %w", m.File, err)
	}
	return spec, nil
}

// validateMachines reads the declarations of all machines. One biz_type has one: the same row cannot be in two.
func (c *Config) validateMachines(complain complainFunc) {
	c.specs = nil
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Machines)) {
		key := "machines." + name
		m := c.Machines[name]
		spec, err := m.spec()
		if err != nil {
			complain(key, "%s", oneLine(err))
			continue
		}
		if other, twice := first[spec.BizType]; twice {
			complain(key, "biz_type %s has another machine, %s; one biz_type has one", spec.BizType, other)
			continue
		}
		first[spec.BizType] = name
		c.specs = append(c.specs, spec)
	}
}

// MachineSpecs are the configured machines, or the one of bizType where it is not empty. None is a usage error that lists
// what there is.
func (c *Config) MachineSpecs(bizType string) ([]ledger.MachineSpec, error) {
	if len(c.specs) == 0 {
		return nil, usageErrorf("no state machine is configured: declare it under machines")
	}
	if bizType == "" {
		return c.specs, nil
	}
	for _, spec := range c.specs {
		if spec.BizType == bizType {
			return []ledger.MachineSpec{spec}, nil
		}
	}
	return nil, usageErrorf("no state machine of biz_type %q is configured; there are %s", bizType, c.machineNames())
}

// MachineSpec is the one machine that a command means: the only one, or that of bizType.
func (c *Config) MachineSpec(bizType string) (ledger.MachineSpec, error) {
	specs, err := c.MachineSpecs(bizType)
	if err != nil {
		return ledger.MachineSpec{}, err
	}
	if len(specs) > 1 {
		return ledger.MachineSpec{}, usageErrorf("several state machines are configured: say which with --biz-type: %s", c.machineNames())
	}
	return specs[0], nil
}

func (c *Config) machineNames() string {
	names := make([]string, len(c.specs))
	for i, spec := range c.specs {
		names[i] = spec.BizType
	}
	return strings.Join(names, ", ")
}

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// configInput is all that a configuration is made of.
type configInput struct {
	file       string // asked for with --config or IDEMCTL_CONFIG; empty: the usual places
	configHome string // the user's configuration folder
	environ    func() []string
	flags      *pflag.FlagSet
}

// configFlags are the flags that set a key.
func configFlags() map[string]string {
	return map[string]string{
		"dsn":          "ledger.dsn",
		"table-prefix": "ledger.table_prefix",
		"time-zone":    "ledger.time_zone",
		"redis-url":    "redis.url",
		"brokers":      "kafka.brokers",
	}
}

// loadConfig reads, merges and validates the configuration. Every error of it is a usage error.
func loadConfig(in configInput) (*Config, error) {
	path, err := findConfig(in.file, in.configHome)
	if err != nil {
		return nil, err
	}
	l := &configLoader{keys: configKeys(), merged: koanf.New("."), origins: origins{}}
	for _, step := range []func() error{
		func() error { return l.file(path) },
		func() error { return l.environment(in.environ) },
		func() error { return l.flags(in.flags) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := l.defaults(); err != nil {
		return nil, err
	}
	cfg := &Config{origins: l.origins}
	dec, err := mapstructure.NewDecoder(decoder(cfg))
	if err != nil {
		return nil, usageErrorf("configuration: %w", err)
	}
	if err := dec.Decode(l.merged.Raw()); err != nil {
		return nil, usageErrorf("configuration%s: %s", inFile(path), oneLine(err))
	}
	cfg.settleRedis()
	cfg.resolvePaths(filepath.Dir(path))
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return cfg, nil
}

func inFile(path string) string {
	if path == "" {
		return ""
	}
	return " " + path
}

// oneLine makes a decoder's list of errors a line.
func oneLine(err error) string {
	s := strings.TrimPrefix(err.Error(), "decoding failed due to the following error(s):")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; ")
}

type configLoader struct {
	keys    *keyTree
	merged  *koanf.Koanf
	origins origins
}

// merge puts a layer over what is there, and notes where each of its keys was set.
func (l *configLoader) merge(layer *koanf.Koanf, from func(key string) origin) error {
	for _, key := range layer.Keys() {
		l.origins[key] = from(key)
	}
	if err := l.merged.Merge(layer); err != nil {
		return usageErrorf("configuration: %w", err)
	}
	return nil
}

func (l *configLoader) file(path string) error {
	if path == "" {
		return nil
	}
	parser := &yamlFile{path: path, lines: map[string]int{}}
	layer := koanf.New(".")
	if err := layer.Load(file.Provider(path), parser); err != nil {
		return usageErrorf("configuration file: %w", err)
	}
	if err := l.keys.checkKeys(layer.Raw(), "", parser.where); err != nil {
		return err
	}
	return l.merge(layer, func(key string) origin { return origin{fromFile, parser.where(key)} })
}

// environment reads IDEMCTL_* by the list of known keys, so that IDEMCTL_LEDGER_TABLE_PREFIX cannot be taken for
// ledger.table.prefix. A handler or a machine must be in the file for its variables to be known.
func (l *configLoader) environment(environ func() []string) error {
	known := map[string]string{}
	shared := map[string]string{} // of handlers or machines whose names differ only in what a variable's name cannot tell
	for _, section := range l.keys.names() {
		l.keys.child(section).leaves(section, l.merged.MapKeys(section), func(key string, _ *keyTree) {
			if other, ok := known[envName(key)]; ok {
				shared[envName(key)] = other + " and " + key
			}
			known[envName(key)] = key
		})
	}
	layer := koanf.New(".")
	var unknown []string
	ambiguous := ""
	err := layer.Load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: environ,
		TransformFunc: func(name, value string) (string, any) {
			key, ok := known[name]
			if !ok && !ownEnv(name) {
				unknown = append(unknown, name)
			}
			if keys, two := shared[name]; two {
				ambiguous = name + " would set " + keys
			}
			return key, value
		},
	}), nil)
	if err != nil {
		return usageErrorf("environment: %w", err)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		hint := ""
		if near, ok := nearest(unknown[0], slices.Sorted(maps.Keys(known))); ok {
			hint = "; did you mean " + near + "?"
		}
		return usageErrorf("environment: unknown variable %s%s", unknown[0], hint)
	}
	if ambiguous != "" {
		return usageErrorf("environment: %s: rename one of them", ambiguous)
	}
	return l.merge(layer, func(key string) origin { return origin{fromEnv, envName(key)} })
}

// ownEnv are variables that are ours without being keys.
func ownEnv(name string) bool {
	return name == envConfig || strings.HasPrefix(name, "IDEMCTL_TEST_")
}

const envConfig = "IDEMCTL_CONFIG"

func (l *configLoader) flags(fs *pflag.FlagSet) error {
	if fs == nil {
		return nil
	}
	byFlag := configFlags()
	names := map[string]string{}
	for flag, key := range byFlag {
		names[key] = "--" + flag
	}
	layer := koanf.New(".")
	err := layer.Load(posflag.ProviderWithFlag(fs, ".", nil, func(f *pflag.Flag) (string, any) {
		if !f.Changed {
			return "", nil
		}
		return byFlag[f.Name], posflag.FlagVal(fs, f)
	}), nil)
	if err != nil {
		return usageErrorf("flags: %w", err)
	}
	return l.merge(layer, func(key string) origin { return origin{fromFlag, names[key]} })
}

// defaults go under everything else, last, since which handlers there are is known only now.
func (l *configLoader) defaults() error {
	values := defaults()
	for _, name := range l.merged.MapKeys("handlers") {
		for key, v := range handlerDefaults() {
			values["handlers."+name+"."+key] = v
		}
	}
	for key := range values {
		if l.merged.Get(key) != nil {
			delete(values, key)
		}
	}
	layer := koanf.New(".")
	if err := layer.Load(confmap.Provider(values, "."), nil); err != nil {
		return usageErrorf("configuration: %w", err)
	}
	return l.merge(layer, func(string) origin { return origin{} })
}

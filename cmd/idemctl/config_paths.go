package main

import "path/filepath"

// resolvePaths makes the files that the configuration file names relative to it, so that it means the same from wherever
// idemctl is run. A path from a variable or a flag stays relative to where it was typed.
func (c *Config) resolvePaths(dir string) {
	fix := func(key string, path *string) {
		if *path != "" && !filepath.IsAbs(*path) && c.origins.of(key).source == fromFile {
			*path = filepath.Join(dir, *path)
		}
	}
	fix("ledger.password_file", &c.Ledger.PasswordFile)
	fix("ledger.option_file", &c.Ledger.OptionFile)
	fix("redis.password_file", &c.Redis.PasswordFile)
	fix("redis.sentinel.password_file", &c.Redis.Sentinel.PasswordFile)
	fix("kafka.sasl.password_file", &c.Kafka.SASL.PasswordFile)
	for _, t := range []struct {
		prefix string
		tls    *TLSConfig
	}{{"redis.tls", &c.Redis.TLS}, {"kafka.tls", &c.Kafka.TLS}} {
		fix(t.prefix+".ca_file", &t.tls.CAFile)
		fix(t.prefix+".cert_file", &t.tls.CertFile)
		fix(t.prefix+".key_file", &t.tls.KeyFile)
	}
	for name, h := range c.Handlers {
		fix("handlers."+name+".effect", &h.Effect)
		c.Handlers[name] = h
	}
	for name, m := range c.Machines {
		fix("machines."+name+".file", &m.File)
		c.Machines[name] = m
	}
}

// settleRedis lets a url from a flag or a variable replace a cluster or sentinel of the file: who types --redis-url means
// that server.
func (c *Config) settleRedis() {
	url := c.origins.of("redis.url").source
	if c.Redis.URL == "" {
		return
	}
	if url > c.origins.of("redis.cluster").source {
		c.Redis.Cluster = nil
	}
	if url > max(c.origins.of("redis.sentinel.master").source, c.origins.of("redis.sentinel.addresses").source) {
		c.Redis.Sentinel = SentinelConfig{}
	}
}

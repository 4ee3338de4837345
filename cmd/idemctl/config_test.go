package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"pgregory.net/rapid"
)

// load reads a configuration as a command would; env are entries NAME=value.
func load(t *testing.T, yaml string, flags []string, env ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), configName)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var g globalFlags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	g.addTo(fs)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return loadConfig(configInput{file: file, environ: func() []string { return env }, flags: fs})
}

func mustLoad(t *testing.T, yaml string, flags []string, env ...string) *Config {
	t.Helper()
	cfg, err := load(t, yaml, flags, env...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "2m": 2 * time.Minute, "24h": day, "30d": 30 * day, "1d12h": 36 * time.Hour,
		"0d": 0, "0s": 0, "1h30m": 90 * time.Minute, "100000d": 100_000 * day,
	} {
		if got, err := parseDuration(in); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	// hazard P4: what has no unit, two meanings or none is refused
	for _, in := range []string{"", "0", "30", "-1d", "+1d", "1.5d", "d", "1d2d", "30D", "1d-1h", "1d+1h", "1d24h", "100001d", "1w", "30 d", "--execute", "99999999999999999999d"} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", in, got)
		}
	}
	for in, want := range map[time.Duration]string{30 * day: "30d", day: "24h", 90 * time.Minute: "1h30m", 5 * time.Minute: "5m", time.Hour: "1h", 250 * time.Millisecond: "250ms", 0: "0s", 10 * time.Second: "10s", 70 * time.Minute: "1h10m"} {
		if got := formatDuration(in); got != want {
			t.Errorf("formatDuration(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(100_000*day)).Draw(t, "d"))
		got, err := parseDuration(formatDuration(d))
		if err != nil || got != d {
			t.Fatalf("parseDuration(%q) = %v, %v, want %v", formatDuration(d), got, err, d)
		}
	})
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"retention", "table_prefix", "dsn"}
	for typed, want := range map[string]string{"retension": "retention", "tableprefix": "table_prefix", "dns": "dsn", "retention": "retention", "zzzzz": "", "": ""} {
		got, ok := nearest(typed, known)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
	if _, ok := nearest("x", nil); ok {
		t.Error("nearest found something among nothing")
	}
}

// Every key must have its own variable, or one would silently set another.
func TestEveryKeyHasItsOwnVariable(t *testing.T) {
	t.Parallel()
	byName := map[string]string{}
	configKeys().leaves("", []string{"coupon"}, func(key string, _ *keyTree) {
		if other, ok := byName[envName(key)]; ok {
			t.Errorf("%s and %s are both %s", key, other, envName(key))
		}
		byName[envName(key)] = key
	})
	if len(byName) < 40 {
		t.Errorf("only %d keys were found", len(byName))
	}
	for _, key := range configFlags() {
		if byName[envName(key)] != key {
			t.Errorf("a flag sets %s, which is no key", key)
		}
	}
	for key := range defaults() {
		if byName[envName(key)] != key {
			t.Errorf("%s has a default and is no key", key)
		}
	}
}

// Every password is marked as a secret, so that a key added later cannot be shown by forgetting.
func TestEveryPasswordIsSecret(t *testing.T) {
	t.Parallel()
	found := 0
	configKeys().leaves("", []string{"coupon"}, func(key string, leaf *keyTree) {
		if strings.HasSuffix(key, "password") {
			found++
			if leaf.secret != "all" {
				t.Errorf("%s is not marked secret", key)
			}
		}
	})
	if found == 0 {
		t.Error("no password was found")
	}
}

func TestLedgerPassword(t *testing.T) { // hazard T1
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret", "from-file\n")
	options := write("my.cnf", "# a comment\n[mysqld]\npassword=servers\n[client]\nuser = ops\npassword = \"from # options\" # why\nhost=db1\nport=3307\n")
	yaml := func(lines ...string) string { return "ledger:\n  " + strings.Join(lines, "\n  ") + "\n" }
	dsn := "dsn: idem@tcp(127.0.0.1:3306)/shop"
	tests := map[string]struct {
		yaml  string
		flags []string
		env   []string
		want  string
		dsn   string
	}{
		"none":                             {yaml: yaml(dsn), want: ""},
		"in the dsn":                       {yaml: yaml("dsn: idem:in-dsn@tcp(127.0.0.1:3306)/shop"), want: "in-dsn"},
		"a file":                           {yaml: yaml(dsn, "password_file: "+secret), want: "from-file"},
		"an option file":                   {yaml: yaml(dsn, "option_file: "+options), want: "from # options"},
		"an option file fills a bare dsn":  {yaml: yaml("dsn: /shop", "option_file: "+options), want: "from # options", dsn: "ops@tcp(db1:3307)/shop"},
		"a variable over a file":           {yaml: yaml(dsn, "password_file: "+secret), env: []string{"IDEMCTL_LEDGER_PASSWORD=env"}, want: "env"},
		"a variable over the dsn's":        {yaml: yaml("dsn: idem:old@tcp(127.0.0.1:3306)/shop"), env: []string{"IDEMCTL_LEDGER_PASSWORD=env"}, want: "env"},
		"a file beside the dsn's":          {yaml: yaml("dsn: idem:old@tcp(127.0.0.1:3306)/shop", "password_file: "+secret), want: "from-file"},
		"a flag's dsn over a file":         {yaml: yaml("password_file: "+secret, dsn), flags: []string{"--dsn", "a:flag@tcp(h:1)/s"}, want: "flag", dsn: "a@tcp(h:1)/s"},
		"a flag's dsn that has none":       {yaml: yaml("password_file: "+secret, dsn), flags: []string{"--dsn", "a@tcp(h:1)/s"}, want: "from-file", dsn: "a@tcp(h:1)/s"},
		"a variable's file over a literal": {yaml: yaml(dsn, "password: literal"), env: []string{"IDEMCTL_LEDGER_PASSWORD_FILE=" + secret}, want: "from-file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := mustLoad(t, tt.yaml, tt.flags, tt.env...)
			got, password, err := cfg.LedgerDSN()
			if err != nil || password != tt.want {
				t.Errorf("password %q, %v, want %q", password, err, tt.want)
			}
			if tt.dsn != "" && got != tt.dsn {
				t.Errorf("dsn %q, want %q", got, tt.dsn)
			}
		})
	}
}

func TestOptionFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want optionFile
		fail bool
	}{
		"plain":            {text: "[client]\nuser=a\npassword=b;c\n", want: optionFile{user: "a", password: "b;c"}},
		"quotes":           {text: "[client]\npassword='a#b'\nuser=\"x y\"\n", want: optionFile{user: "x y", password: "a#b"}},
		"escapes":          {text: "[client]\npassword=a\\\\b\\s#c\n", want: optionFile{password: `a\b `}},
		"other sections":   {text: "[mysql]\nuser=a\n[client]\nsocket=/run/m.sock\nskip-ssl\n[mysqldump]\nuser=b\n", want: optionFile{socket: "/run/m.sock"}},
		"an include":       {text: "!includedir /etc/mysql\n[client]\nuser=a\n", fail: true},
		"no section":       {text: "user=a\n", fail: true},
		"spaces, comments": {text: "\n ; x\n#y\n[client]\n  host =  h1  # z\n", want: optionFile{host: "h1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "my.cnf")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readOptionFile(path)
			if (err != nil) != tt.fail || !tt.fail && got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, "redis:\n  sentinel: {master: m, addresses: [\"s:1\"], password: sp}\n  db: 3\n  password: rp\n  timeout: 100ms\n  tls: {enabled: true, server_name: r}\n", nil)
	o, err := cfg.redisOptions(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if o.MasterName != "m" || !reflect.DeepEqual(o.Addrs, []string{"s:1"}) || o.DB != 3 || o.Password != "rp" || o.SentinelPassword != "sp" ||
		o.ReadTimeout != 100*time.Millisecond || o.TLSConfig == nil || o.TLSConfig.ServerName != "r" {
		t.Errorf("options are %+v", o)
	}
	if o.MaxRetries != -1 { // hazard G10
		t.Error("the client would send a SET NX twice by itself")
	}
	cfg = mustLoad(t, "redis:\n  url: redis://u:p@h:1/2\n", nil, "IDEMCTL_REDIS_PASSWORD=env")
	if o, err = cfg.redisOptions(time.Second); err != nil || o.Password != "env" || o.Username != "u" || o.DB != 2 {
		t.Errorf("options are %+v, %v", o, err)
	}
	cfg = mustLoad(t, "redis:\n  cluster: [\"a:1\"]\n", nil)
	if o, err = cfg.redisOptions(time.Second); err != nil || !o.IsClusterMode {
		t.Errorf("options are %+v, %v", o, err)
	}
	if _, err = mustLoad(t, "", nil).redisOptions(time.Second); exitCode(err) != exitUsage {
		t.Errorf("no server configured: %v", err)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	cfg := mustLoad(t, `
ledger: {time_zone: Asia/Shanghai}
handlers:
  coupon: {topic: order-paid, biz_type: COUPON, key: orderId, memory_since: 2026-11-01}
  shipment: {topic: order-paid, biz_type: SHIPMENT, key: orderId, memory_since: "2026-11-01T00:00:00Z"}
  refund: {topic: order-refunded, biz_type: REFUND, key: key}
`, nil)
	tests := map[string]struct{ topic, biz, want, err string }{
		"the only one":     {"order-refunded", "", "refund", ""},
		"by biz_type":      {"order-paid", "SHIPMENT", "shipment", ""},
		"two and no word":  {"order-paid", "", "", "say which with --biz-type: COUPON (handler coupon), SHIPMENT (handler shipment)"},
		"a wrong biz_type": {"order-paid", "REFUND", "", "it has COUPON (handler coupon), SHIPMENT (handler shipment)"},
		"a mistyped topic": {"order-payd", "", "", `did you mean topic "order-paid"?`},
		"an unknown topic": {"x", "", "", "there are handlers for order-paid, order-refunded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := cfg.Handler(tt.topic, tt.biz)
			if tt.err == "" {
				if err != nil || h.Name != tt.want {
					t.Errorf("got %s, %v, want %s", h.Name, err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || exitCode(err) != exitUsage {
				t.Errorf("got %v, want a usage error with %q", err, tt.err)
			}
		})
	}
	// A date is midnight in the ledger's zone, a time of its own zone is that instant.
	for biz, want := range map[string]string{"COUPON": "2026-10-31T16:00:00Z", "SHIPMENT": "2026-11-01T00:00:00Z"} {
		h, err := cfg.Handler("order-paid", biz)
		if err != nil || h.Since.Format(time.RFC3339) != want {
			t.Errorf("%s: memory since %v, %v, want %s", biz, h.Since, err, want)
		}
	}
}

// Every command fixes its arguments, refuses what it does not know, and says how it can end (hazard T5).
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	a := newApp(&streams{Out: newOutWriter(nil), Err: &errWriter{}}, func() []string { return nil })
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		seen++
		if cmd.Args == nil {
			t.Errorf("%s takes any arguments", cmd.CommandPath())
		}
		if cmd.RunE == nil {
			t.Errorf("%s has no RunE", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Long, "\nExit status:\n  0 ") || strings.Contains(cmd.Long[strings.LastIndex(cmd.Long, "Exit status:"):], "\n\n") {
			t.Errorf("%s: the long help does not end in its exit statuses", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%s: a line of the long help is wider than 80: %s", cmd.CommandPath(), line)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if path := strings.HasSuffix(f.Name, "file") || strings.HasSuffix(f.Name, "dir") || f.Name == "archive" || f.Name == "input" || f.Name == "config"; path && f.Value.Type() != "path" {
				t.Errorf("%s: --%s is a path and no pathFlag", cmd.CommandPath(), f.Name)
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(a))
	if seen < 5 {
		t.Errorf("only %d commands", seen)
	}
}

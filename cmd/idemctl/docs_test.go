package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/idemctl/idemctl/pkg/replay"
)

const repoRoot = "../.."

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repoRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every key is documented in a row of its own, with its variable, its default and its flag.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	rows := map[string]string{}
	for line := range strings.Lines(readDoc(t, "docs/configuration.md")) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			if key, row, ok := strings.Cut(rest, "` |"); ok {
				rows[key] = row
			}
		}
	}
	preset := defaults()
	for key, v := range handlerDefaults() {
		preset["handlers.coupon."+key] = v
	}
	flags := map[string]string{}
	for flag, key := range configFlags() {
		flags[key] = "`--" + flag + "`"
	}
	known := map[string]bool{}
	configKeys().leaves("", []string{"coupon"}, func(key string, _ *keyTree) {
		known[key] = true
		row, ok := rows[key]
		if !ok {
			t.Errorf("%s is not documented", key)
			return
		}
		if !strings.Contains(row, "`"+envName(key)+"`") {
			t.Errorf("%s: its variable %s is not named", key, envName(key))
		}
		if v, ok := preset[key].(string); ok && !strings.HasPrefix(row, " `"+v+"` |") {
			t.Errorf("%s: its default %s is not given", key, v)
		}
		if flag := flags[key]; !strings.Contains(row, flag) {
			t.Errorf("%s: its flag %s is not named", key, flag)
		}
	})
	for key := range rows {
		if strings.Contains(key, ".") && !known[key] {
			t.Errorf("%s is documented and is no key", key)
		}
	}
}

// The README's table lists the commands that there are, and no others.
func TestEveryCommandIsInTheReadme(t *testing.T) {
	t.Parallel()
	var want []string
	root := newRoot(newApp(&streams{Out: newOutWriter(nil), Err: &errWriter{}}, func() []string { return nil }))
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		group := cmd.HasSubCommands() && cmd.Name() != "completion"
		for _, sub := range cmd.Commands() {
			if group && sub.Name() != "help" {
				walk(sub)
			}
		}
		if !group || cmd.Flags().Lookup("execute") != nil { // purge does something itself, beside its subcommands
			want = append(want, cmd.CommandPath())
		}
	}
	walk(root)
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(idemctl [a-z ]+[a-z])[ `]").FindAllStringSubmatch(readDoc(t, "README.md"), -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the README lists %q, there are %q", got, want)
	}
}

// What a report may say is explained, and an outcome that stops someone at night has a section in the runbook.
func TestEveryOutcomeIsDocumented(t *testing.T) {
	t.Parallel()
	concepts, runbook := readDoc(t, "docs/concepts.md"), readDoc(t, "docs/runbook.md")
	for _, o := range replay.Outcomes() {
		if !strings.Contains(concepts, "`"+o+"`") {
			t.Errorf("docs/concepts.md does not explain %s", o)
		}
		switch o {
		case replay.OutcomeExecuted, replay.OutcomeAbsorbedFilter, replay.OutcomeAbsorbedLedger:
			continue
		}
		if !regexp.MustCompile(`(?m)^## .*\b` + o + `\b`).MatchString(runbook) {
			t.Errorf("docs/runbook.md has no section on %s", o)
		}
	}
}

// Every link within the documentation leads to a file that is there, and to a heading of it.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	docs, err := filepath.Glob(filepath.Join(repoRoot, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no documentation: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, doc := range append(docs, filepath.Join(repoRoot, "README.md"), filepath.Join(repoRoot, "CHANGELOG.md")) {
		for _, m := range link.FindAllStringSubmatch(proseOf(t, doc), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := doc
			if file != "" {
				target = filepath.Join(filepath.Dir(doc), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", doc, m[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchorsOf(t, target), anchor) {
				t.Errorf("%s: link %s: no such heading", doc, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no link was found")
	}
}

// proseOf is a document without its code blocks.
func proseOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var prose strings.Builder
	for i, part := range strings.Split("\n"+string(b), "\n```") {
		if i%2 == 0 {
			prose.WriteString(part)
		}
	}
	return prose.String()
}

// anchorsOf are the names of a document's headings as links use them: in lower case, without punctuation, with dashes.
func anchorsOf(t *testing.T, path string) []string {
	t.Helper()
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(proseOf(t, path), -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
	}
	return anchors
}

package main

import "github.com/idemctl/idemctl/internal/render"

// PrintUnlessQuiet writes the result of a command that ends with exit status 0 and has nothing that must be read: with -q a
// job of cron stays silent when all is well, since cron mails every word. Other formats than the table are written all the
// same: their readers parse every run.
func (a *app) PrintUnlessQuiet(r render.Result) error {
	if a.flags.quiet && a.flags.output == render.FormatTable {
		return nil
	}
	return a.Print(r)
}

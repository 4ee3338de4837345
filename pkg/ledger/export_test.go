package ledger

// ProbePlainly breaks a guard on purpose: its look into the other months does not lock.
func ProbePlainly(g *Guard) { g.opts.Store.probeLock = "" }

// AskEmptyPlainly breaks a guard on purpose: it takes a month for empty that only holds rows of an open transaction.
func AskEmptyPlainly(g *Guard) { g.shareNoWait = "" }

// ProbeFirst breaks a guard on purpose: it looks into the other months before it inserts.
func ProbeFirst(g *Guard) { g.sequence = []claimStep{stepProbe, stepInsert, stepConfirm} }

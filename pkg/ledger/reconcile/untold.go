package reconcile

import (
	"fmt"
	"slices"
	"strings"
)

// Untold is a kind of finding that a ledger made by someone else cannot tell, so none of it is reported, and why.
type Untold struct {
	Kind Kind   `json:"kind"`
	Why  string `json:"why"`
}

// untold lists what this ledger cannot tell. One of our own tells all.
func (b *books) untold(o *Options) []Untold {
	if !o.Scheme.Legacy() {
		return nil
	}
	var list []Untold
	if without := b.unvouched(o); without != "" {
		list = append(list, Untold{Phantom, "nothing says since when the ledger remembers " + without + ": memory_since of the handler does; until then they are unremembered"})
	}
	list = append(list, Untold{FingerprintMismatch, "the ledger has no fingerprints"})
	if b.current().LedgerID == "" {
		list = append(list, Untold{ForeignLedger, "the ledger has no id of its own, so COMPLETED of any writer counts"})
	}
	if !b.told() {
		const why = "the ledger has no biz_type, and is not configured for exactly one: nothing says whose a row is"
		list = append(list, Untold{Twice, why}, Untold{Cold, why})
	}
	return list
}

// unvouched names the biz_types of which nothing says since when the ledger remembers them; "": there is none.
func (b *books) unvouched(o *Options) string {
	kinds := o.BizTypes
	if len(kinds) == 0 {
		kinds = o.LedgerBizTypes
	}
	cat := b.current()
	vouched := func(biz string) bool {
		_, registered := cat.Horizon(biz)
		return registered || !o.MemorySince[biz].IsZero() || !cat.VouchedSince.IsZero()
	}
	if len(kinds) == 0 {
		if len(cat.Biz) > 0 || !cat.VouchedSince.IsZero() {
			return ""
		}
		return "anything"
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), vouched)
	return strings.Join(kinds, ", ")
}

// onlyBiz is the one biz_type that the rows of a ledger without such a column can be of, or "".
func onlyBiz(o *Options) string {
	kinds := o.LedgerBizTypes
	if len(kinds) == 0 {
		kinds = o.BizTypes
	}
	if o.Scheme.Columns().BizType == "" && len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// checkLegacy refuses options by which a ledger made by someone else cannot be read.
func (o *Options) checkLegacy() error {
	if o.Scheme.Legacy() && o.Retention <= 0 {
		return fmt.Errorf("reconcile: retention %v: expected how long the ledger made by someone else keeps its rows", o.Retention)
	}
	return nil
}

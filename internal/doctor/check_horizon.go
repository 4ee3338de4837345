package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemctl/idemctl/pkg/partition"
	"github.com/idemctl/idemctl/pkg/replay"
)

// checkHorizon compares what the ledger remembers with what the retention promises.
func checkHorizon(ctx context.Context, f *Facts) (Result, error) {
	if f.Scheme.Legacy() {
		return skipped("a ledger made by someone else has no catalog that would say it"), nil
	}
	cat, err := f.catalog(ctx)
	if errors.Is(err, partition.ErrNoCatalog) {
		return skipped("no catalog yet"), nil
	}
	if err != nil {
		return Result{}, err
	}
	now, err := f.now(ctx)
	if err != nil {
		return Result{}, err
	}
	var bad []Result
	var latest time.Time
	for _, biz := range sortedKeys(cat.Biz) {
		h, known := cat.Horizon(biz)
		if !known {
			continue
		}
		if h.After(latest) {
			latest = h
		}
		oldest, err := f.oldestRecord(ctx, biz)
		if err != nil {
			return Result{}, err
		}
		bad = append(bad, judgeHorizon(biz, h, cat.Biz[biz], now, f.Retention, oldest)...)
	}
	if latest.IsZero() {
		return ok("no biz_type has claimed yet"), nil
	}
	return merge(ok("memory complete after %s at the latest, %s ago; retention %s", stamp(latest), Short(now.Sub(latest)), Short(f.Retention)), bad), nil
}

// oldestRecord is the oldest record that the handlers of a biz_type can be given; zero where that is not known.
func (f *Facts) oldestRecord(ctx context.Context, biz string) (time.Time, error) {
	var oldest time.Time
	if configured, err := f.server(Kafka); err != nil || !configured {
		return oldest, nil //nolint:nilerr // the ledger's own part is judged without it; topic.retention tells of the brokers
	}
	for _, h := range f.Handlers {
		if h.BizType != biz {
			continue
		}
		r, err := f.Kafka.Retention(ctx, h.Topic)
		if _, missing := errors.AsType[*replay.TopicError](err); missing {
			continue
		}
		if err != nil {
			return oldest, err
		}
		if !r.OldestRecord.IsZero() && (oldest.IsZero() || r.OldestRecord.Before(oldest)) {
			oldest = r.OldestRecord
		}
	}
	return oldest, nil
}

func judgeHorizon(biz string, h time.Time, m partition.Memory, now time.Time, retention time.Duration, oldest time.Time) []Result {
	const mend = "idemctl partition list; if no effect ran outside the ledger since TIME: idemctl partition create --memory-since TIME --biz-type "
	read := fmt.Sprintf("%s: memory complete after %s", biz, stamp(h))
	switch {
	case h.After(now):
		return []Result{finding(Fail, read+", in the future", "Until then every message without a row is refused as outside_horizon.", mend+biz)}
	case now.Sub(h) >= retention:
		return nil
	case !h.Equal(m.Since):
		return []Result{finding(Warn, fmt.Sprintf("%s, only %s ago; retention is %s", read, Short(now.Sub(h)), Short(retention)),
			"Entries younger than the retention are gone (a purge with a shorter one, or a lost table), so their orders are refused when they come again.", mend+biz)}
	case !oldest.IsZero() && oldest.Before(h):
		return []Result{finding(Warn, fmt.Sprintf("%s, and its topic has records from %s on", read, stamp(oldest)),
			"The ledger is younger than those records: without a row they are refused (outside_horizon), since nobody can prove that they are new.", mend+biz)}
	}
	return nil // a young ledger: there is nothing older to ask about
}

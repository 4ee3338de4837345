package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/idemctl/idemctl/pkg/ledger"
)

const (
	// scanPage is COUNT, about how many keys a SCAN returns.
	scanPage = 1000
	// scanWorkers compare pages at a time: while one waits for Redis another waits for the ledger.
	scanWorkers = 4
)

// scannedPage is the keys of one SCAN.
type scannedPage struct {
	client *redis.Client
	names  []string
}

// filterToLedger scans every master and looks each key up in the ledger.
func (s *scan) filterToLedger(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	pages := make(chan scannedPage)
	scanners, sctx := errgroup.WithContext(ctx)
	for i := range s.begin.nodes {
		scanners.Go(func() error { return s.scanMaster(sctx, i, pages) })
	}
	g.Go(func() error {
		defer close(pages)
		return scanners.Wait()
	})
	for range scanWorkers {
		g.Go(func() error {
			for p := range pages {
				if err := s.checkPage(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait() //nolint:wrapcheck // our own
}

func (s *scan) scanMaster(ctx context.Context, at int, pages chan<- scannedPage) error {
	n := s.begin.nodes[at]
	pattern := s.opts.Template.Pattern("")
	if len(s.opts.BizTypes) == 1 {
		pattern = s.opts.Template.Pattern(s.opts.BizTypes[0])
	}
	var cursor uint64
	for {
		names, next, err := n.client.Scan(ctx, cursor, pattern, scanPage).Result()
		if err != nil {
			return failed(GapRedis, fmt.Errorf("scan Redis %s: %w", n.addr, err))
		}
		s.masters[at].Add(int64(len(names)))
		done := s.keysScanned.Add(int64(len(names)))
		if err := s.take(ctx, len(names)); err != nil {
			return err
		}
		if len(names) > 0 {
			select {
			case pages <- scannedPage{client: n.client, names: names}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		s.report("redis", done, s.keysExpected)
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// checkPage compares the keys of one page with the ledger.
func (s *scan) checkPage(ctx context.Context, p scannedPage) error {
	names, keys, err := s.wanted(p.names)
	if err != nil || len(names) == 0 {
		return err
	}
	markers, err := readFirst(ctx, p.client, names)
	if err != nil {
		return failed(GapRedis, err)
	}
	rules := s.rules()
	now := s.clock.now()
	if err := s.remember(names, markers, rules, now); err != nil {
		return err
	}
	var at []int
	for i := range markers {
		m := &markers[i]
		if m.State == ledger.MarkerNone || s.tooOld(rules, m) {
			continue
		}
		s.checked.Add(1)
		if s.pairs == nil || bitsOf(m, rules, now, s.until) == 0 {
			at = append(at, i)
		}
	}
	return s.compare(ctx, names, keys, markers, at)
}

// compare looks up those keys of a page that are numbered in at, and judges their markers.
func (s *scan) compare(ctx context.Context, names []string, keys []ledger.Key, markers []reading, at []int) error {
	ask := make([]ledger.Key, len(at)) // a malformed marker's stays empty: whether it has a row says nothing
	for n, i := range at {
		if markers[i].State != ledger.MarkerMalformed {
			ask[n] = keys[i]
		}
	}
	if len(ask) == 0 {
		return nil
	}
	rows, err := s.books.findAny(ctx, ask)
	if err != nil {
		return failed(GapLedger, err)
	}
	rules, now := s.rules(), s.clock.now()
	for n, i := range at {
		var of []row
		if rows[n] != nil {
			of = []row{*rows[n]}
		}
		if k := rules.judge(keys[i], &markers[i], of, markers[i].idle, now); k != "" {
			if err := s.suspect(newSuspect(k, names[i], &markers[i], now)); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted are the keys of a page that are to be compared. One that is not of the template is written down.
func (s *scan) wanted(all []string) (names []string, keys []ledger.Key, err error) {
	names, keys = make([]string, 0, len(all)), make([]ledger.Key, 0, len(all))
	for _, n := range all {
		if !s.sampled(n) {
			continue
		}
		k, ok := s.opts.Template.Parse(n)
		switch {
		case !ok && s.opts.Template.Prefix() != "" && len(s.opts.BizTypes) == 0:
			// Without a beginning that all have in common any key of this Redis would be alien.
			if err := s.suspect(suspect{Kind: AlienKey, Name: Bytes(n), Seen: s.clock.now()}); err != nil {
				return nil, nil, err
			}
		case ok && (len(s.opts.BizTypes) == 0 || slices.Contains(s.opts.BizTypes, k.BizType)):
			names, keys = append(names, n), append(keys, k)
		}
	}
	return names, keys, nil
}

// remember writes down which keys have a marker, so that the way back need not ask for them again.
func (s *scan) remember(names []string, markers []reading, rules *rules, now time.Time) error {
	switch {
	case s.pairs != nil:
		for i, n := range names {
			m := &markers[i]
			if m.State == ledger.MarkerNone {
				continue
			}
			bits := bitsOf(m, rules, now, s.until)
			if s.tooOld(rules, m) {
				bits = 0 // it is there, and is not looked at
			}
			if err := s.pairs.addMarker(n, bits, m.Fingerprint); err != nil {
				return err
			}
		}
	case s.seen != nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, n := range names {
			if markers[i].State == ledger.MarkerNone {
				continue
			}
			if err := s.seen.Add(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// tooOld reports a marker that was written before Options.Since. One whose age is not known is not.
func (s *scan) tooOld(rules *rules, m *reading) bool {
	if s.opts.Since.IsZero() || m.State != ledger.MarkerCompleted {
		return false
	}
	written, known := rules.written(m, s.clock.now())
	return known && written.Before(s.opts.Since)
}

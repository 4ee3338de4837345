package doctor

import (
	"testing"
	"time"
)

func TestConfigChecks(t *testing.T) {
	t.Parallel()
	p99 := func(d time.Duration) func(*Setup) { return func(s *Setup) { s.Handlers[0].P99 = d } }
	second := func(h Handler) func(*Setup) { return func(s *Setup) { s.Handlers = append(s.Handlers, h) } }
	none := func(s *Setup) { s.Handlers = nil }
	for _, c := range []struct {
		check  string
		change func(*Setup)
		want   Status
		read   string
	}{
		{"config.lease", nil, OK, "lease 2m, slowest handler_p99 200ms"},
		{"config.lease", p99(24 * time.Second), OK, "24s"},                                         // exactly five times
		{"config.lease", p99(24*time.Second + time.Millisecond), Warn, "coupon: lease 2m is less"}, // hazard G3
		{"config.lease", p99(3 * time.Minute), Fail, "coupon: lease 2m is less than 5 x 3m"},
		{"config.lease", p99(0), Skipped, "no handler says"},
		{"config.lease", second(Handler{Name: "other", BizType: "B"}), OK, "not said by 1 other handler"},
		{"config.poll", nil, OK, "20 records x 200ms = 4s"},
		{"config.poll", p99(3*time.Second - time.Millisecond), OK, "20 records x"},
		{"config.poll", p99(3 * time.Second), Fail, "coupon: 20 records x 3s = 1m, rebalance timeout 1m"}, // hazard G21
		{"config.poll", none, Skipped, "no handler says"},
		{"config.completed-ttl", nil, OK, "completed_ttl 24h, retention 30d"},
		{"config.completed-ttl", func(s *Setup) { s.CompletedTTL = 31 * day }, Warn, "31d is longer than retention 30d"},
		{"config.key", nil, OK, "no two keys share a name"},
		{"config.key", func(s *Setup) { s.KeyTemplate = "x:{biz_type}-{order_id}" }, Fail, "after {biz_type}"}, // hazard G12
		{"config.key", func(s *Setup) { s.KeyTemplate = "x:{order_id}" }, Fail, "no {biz_type}"},
		{"config.key", func(s *Setup) { s.KeyTemplate = "{idem}:{biz_type}:{order_id}" }, Warn, "fixed hash tag {idem}"},
		{"config.event-time", nil, OK, "1 handler, each"},
		{"config.event-time", func(s *Setup) { s.Handlers[0].EventTime = EventTimeRecord }, Warn, "coupon: event_time is the record's timestamp"},
		{"config.event-time", func(s *Setup) { s.Handlers[0].Fallback = EventTimeRecord }, Warn, "coupon: fallback"},
		{"config.event-time", none, Skipped, "no handler"},
		{"config.biz-type", nil, OK, "1 biz_type,"},
		{"config.biz-type", second(Handler{Name: "app", Topic: "app-paid", BizType: "COUPON", Key: "id"}), Warn, "COUPON is fed by coupon (order-paid, key orderId) and app (app-paid, key id)"},
		{"config.biz-type", second(Handler{Name: "app", Topic: "app-paid", BizType: "COUPON", Fingerprint: []string{"amount"}}), Fail, "different fingerprints"},
		{"config.biz-type", second(Handler{Name: "ship", Topic: "order-paid", BizType: "SHIPMENT"}), OK, "2 biz_types"},
		{"config.biz-type", none, Skipped, "no handler"},
	} {
		s := setup(t)
		if c.change != nil {
			c.change(&s)
		}
		expect(t, check(t, s, c.check), c.want, c.read)
	}
}

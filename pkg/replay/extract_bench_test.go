package replay_test

import (
	"testing"
	"time"

	"github.com/idemctl/idemctl/pkg/replay"
)

// BenchmarkExtract reads key and time from an order of about 400 bytes.
func BenchmarkExtract(b *testing.B) {
	loc := time.FixedZone("", 8*3600)
	x, err := replay.NewExtractor(replay.ExtractorConfig{Key: "orderId", EventTime: "paidAt", Location: loc})
	if err != nil {
		b.Fatal(err)
	}
	value := []byte(`{"orderId":"20261111-8842","paidAt":"2026-11-11T00:00:12.345+08:00","user":{"id":77231,"name":"Wang","tags":["a","b"]},` +
		`"items":[{"sku":"A-100","price":199.00,"n":1},{"sku":"B-7","price":12.50,"n":3},{"sku":"C-9","price":0.99,"n":10}],` +
		`"address":{"city":"Hangzhou","street":"Wen Yi Xi Lu 969","zip":"311121"},"channel":"app","coupon":null,"amount":246.40}`)
	rec := replay.Record{Topic: "order-paid", Value: value}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := x.Extract(rec); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idemctl/idemctl/pkg/ledger"
)

func TestKeyValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key ledger.Key
		ok  bool
	}{
		"plain":              {ledger.Key{BizType: "COUPON", OrderID: "20261111-8842"}, true},
		"whole alphabet":     {ledger.Key{BizType: "aZ09_.-", OrderID: "x"}, true},
		"longest":            {ledger.Key{BizType: strings.Repeat("B", 32), OrderID: strings.Repeat("k", 128)}, true},
		"any bytes":          {ledger.Key{BizType: "COUPON", OrderID: "\x00\xff\n :{}"}, true},
		"order_id empty":     {ledger.Key{BizType: "COUPON"}, false},
		"order_id too long":  {ledger.Key{BizType: "COUPON", OrderID: strings.Repeat("k", 129)}, false},
		"bytes, not letters": {ledger.Key{BizType: "COUPON", OrderID: strings.Repeat("ü", 65)}, false},
		"biz_type empty":     {ledger.Key{OrderID: "x"}, false},
		"biz_type too long":  {ledger.Key{BizType: strings.Repeat("B", 33), OrderID: "x"}, false},
		"biz_type colon":     {ledger.Key{BizType: "A:B", OrderID: "x"}, false},
		"biz_type newline":   {ledger.Key{BizType: "COUPON\n", OrderID: "x"}, false},
		"biz_type letters":   {ledger.Key{BizType: "CÖUPON", OrderID: "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.key.Validate()
			if (err == nil) != c.ok || (err != nil && !errors.Is(err, ledger.ErrKey)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// hazard G12: a template by which two keys could share a name is refused.
func TestParseKeyTemplateRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"",
		"idempotent",
		"{biz_type}-{order_id}", "{biz_type}.{order_id}", "{biz_type}_{order_id}", "{biz_type}A:{order_id}", "{biz_type}{order_id}",
		"idempotent:{order_id}", "idempotent:{biz_type}:", "idempotent:{biz_type}",
		"{order_id}:{biz_type}", "{order_id}:{biz_type}:{order_id}", "{biz_type}:{order_id}:{order_id}", "{biz_type}:{biz_type}:{order_id}",
		"{biz_type}:{order_id}:x", "{biz_type}:{order_id} ", "{BIZ_TYPE}:{order_id}", "{biz_type}:{orderId}",
	} {
		if _, err := ledger.ParseKeyTemplate(s); !errors.Is(err, ledger.ErrKey) {
			t.Errorf("%q: error %v, want ErrKey", s, err)
		}
	}
	for s, want := range map[string]string{
		"idempotent:{biz_type}:{order_id}":           "idempotent:COUPON:a:b",
		"{biz_type}:{order_id}":                      "COUPON:a:b",
		"{biz_type}:-{order_id}":                     "COUPON:-a:b",
		"shop/{biz_type}/{order_id}":                 "shop/COUPON/a:b",
		"{shop}:{biz_type}:{order_id}":               "{shop}:COUPON:a:b", // a hash tag of the operator's
		"{biz_type}ü{order_id}":                      "COUPONüa:b",
		"idempotent:COUPON:{biz_type}:of:{order_id}": "idempotent:COUPON:COUPON:of:a:b",
	} {
		tmpl, err := ledger.ParseKeyTemplate(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if got := tmpl.Name(ledger.Key{BizType: "COUPON", OrderID: "a:b"}); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestKeyTemplateParseRefuses(t *testing.T) {
	t.Parallel()
	tmpl, err := ledger.ParseKeyTemplate("idempotent:{biz_type}:{order_id}")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", "idempotent", "idempotent:", "idempotent:COUPON", "idempotent:COUPON:", "idempotent::x", "idempotent:CÖUPON:x", "other:COUPON:x",
		" idempotent:COUPON:x", "idempotent:COUPON:" + strings.Repeat("k", 129), "idempotent:" + strings.Repeat("B", 33) + ":x",
	} {
		if k, ok := tmpl.Parse(name); ok {
			t.Errorf("%q is taken for %+v", name, k)
		}
	}
}

func drawKey(t *rapid.T, label string) ledger.Key {
	return ledger.Key{
		BizType: rapid.StringMatching(`[A-Za-z0-9_.-]{1,32}`).Draw(t, label+" biz_type"),
		// Short ones of few bytes, so that two keys come close to each other.
		OrderID: rapid.OneOf(rapid.StringMatching(`[A:.-]{1,4}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 128), func(b []byte) string { return string(b) })).
			Draw(t, label+" order_id"),
	}
}

// hazard G12: whatever a template is accepted, it is injective, and a name is read back as the key it was made from.
func TestKeyTemplateIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a:{}/-]{0,6}`).Draw(t, "before") + "{biz_type}" + rapid.StringMatching(`[A:./-]{0,3}`).Draw(t, "between") + "{order_id}"
		tmpl, err := ledger.ParseKeyTemplate(text)
		if err != nil {
			t.Skip("refused")
		}
		a, b := drawKey(t, "a"), drawKey(t, "b")
		if got, ok := tmpl.Parse(tmpl.Name(a)); !ok || got != a {
			t.Fatalf("%q: %+v is read back as %+v, %v", text, a, got, ok)
		}
		if a != b && tmpl.Name(a) == tmpl.Name(b) {
			t.Fatalf("%q: %+v and %+v share the name %q", text, a, b, tmpl.Name(a))
		}
	})
}

// FuzzKeyTemplate: what is read from any name has exactly that name.
func FuzzKeyTemplate(f *testing.F) {
	f.Add("idempotent:{biz_type}:{order_id}", "idempotent:COUPON:20261111-8842")
	f.Add("{biz_type}-{order_id}", "A-B-C")
	f.Add("{biz_type}:-{order_id}", "A:-:-x")
	f.Add("{{biz_type}}{order_id}", "{A}x")
	f.Fuzz(func(t *testing.T, text, name string) {
		tmpl, err := ledger.ParseKeyTemplate(text)
		if err != nil {
			if !errors.Is(err, ledger.ErrKey) {
				t.Errorf("error %v, want ErrKey", err)
			}
			return
		}
		if k, ok := tmpl.Parse(name); ok {
			if k.Validate() != nil || tmpl.Name(k) != name {
				t.Errorf("template %q: %q is taken for %+v, whose name is %q", text, name, k, tmpl.Name(k))
			}
		}
	})
}

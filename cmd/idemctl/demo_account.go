package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/idemctl/idemctl/internal/mysqlx"
	"github.com/idemctl/idemctl/internal/render"
)

// demoCount is what one consumer's coupons come to, compared with the orders that were published.
type demoCount struct {
	Orders     int `json:"orders"`
	Coupons    int `json:"coupons"`
	Duplicates int `json:"duplicates"` // coupons beyond the first of an order
	Users      int `json:"users"`      // who got more than one
	Lost       int `json:"lost"`       // orders without a coupon
	Unknown    int `json:"unknown"`    // coupons of an order that was never published
}

// exact reports that there is one coupon for each order and none besides.
func (c *demoCount) exact() bool {
	return c.Coupons == c.Orders && c.Duplicates == 0 && c.Lost == 0 && c.Unknown == 0
}

// count compares a coupon table with the orders.
func (in *demoIncident) count(ctx context.Context, db *sql.DB, table string) (demoCount, error) {
	c := demoCount{Orders: len(in.orders)}
	granted, err := countBy(ctx, db, "SELECT order_id, COUNT(*) FROM "+table+" GROUP BY order_id")
	if err != nil {
		return c, err
	}
	for _, o := range in.orders {
		n := granted[o.id]
		delete(granted, o.id)
		c.Coupons += n
		if n == 0 {
			c.Lost++
		} else {
			c.Duplicates += n - 1
		}
	}
	for _, n := range granted {
		c.Coupons += n
		c.Unknown += n
	}
	users, err := countBy(ctx, db, "SELECT user_id, COUNT(*) FROM "+table+" GROUP BY user_id HAVING COUNT(*) > 1")
	c.Users = len(users)
	return c, err
}

func countBy(ctx context.Context, db *sql.DB, query string) (map[string]int, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("count the coupons: %w", err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			return nil, fmt.Errorf("count the coupons: %w", err)
		}
		counts[key] = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count the coupons: %w", err)
	}
	return counts, nil
}

// showUnguarded counts what the unguarded consumer did, and shows the story's order.
func (d *demo) showUnguarded(ctx context.Context, db *sql.DB) error {
	c, err := d.incident.count(ctx, db, "coupon_unguarded")
	if err != nil {
		return err
	}
	if c.Duplicates != demoExtra || c.Users != demoAffected || c.Lost != 0 || c.Unknown != 0 {
		return fmt.Errorf("the unguarded consumer granted %d coupons too many to %d users and lost %d orders: not the incident (%d, %d, 0)",
			c.Duplicates, c.Users, c.Lost, demoExtra, demoAffected)
	}
	d.sayf("It granted %d coupons for %d orders: %d users got %d too many.\nOrder %s is one of them:\n",
		c.Coupons, c.Orders, c.Users, c.Duplicates, d.incident.story.id)
	t := render.Table{Columns: []render.Column{{Name: "record"}, {Name: "published"}, {Name: "coupon granted", Align: render.Right}}}
	for _, r := range d.incident.records {
		if r.order != d.incident.story {
			continue
		}
		granted, err := countBy(ctx, db, "SELECT source, COUNT(*) FROM coupon_unguarded WHERE order_id = '"+r.order.id+"' GROUP BY source")
		if err != nil {
			return err
		}
		t.Add(r.coordinates(), r.published.In(d.incident.zone).Format("2006-01-02 15:04:05.000 -07:00"), strconv.Itoa(granted[r.coordinates()]))
	}
	return t.WriteText(d.out, 0)
}

// demoAccount is the result of the demo.
type demoAccount struct {
	OK        bool      `json:"ok"`
	Unguarded demoCount `json:"unguarded"`
	Guarded   demoCount `json:"guarded"`
	// Surprise is the first command that did not end as it should have.
	Surprise string `json:"surprise,omitempty"`
}

// account counts both tables in the database.
func (d *demo) account(ctx context.Context) (a *demoAccount, err error) {
	db, err := mysqlx.Open(mysqlx.Options{DSN: d.lab.DSN})
	if err != nil {
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a = &demoAccount{Surprise: d.surprise}
	if a.Unguarded, err = d.incident.count(ctx, db, "coupon_unguarded"); err != nil {
		return nil, ended(ctx, err)
	}
	if a.Guarded, err = d.incident.count(ctx, db, "coupon"); err != nil {
		return nil, ended(ctx, err)
	}
	a.OK = a.Guarded.exact() && d.surprise == ""
	return a, nil
}

func (a *demoAccount) render() render.Result {
	t := render.Table{Columns: []render.Column{
		{Name: "consumer"}, {Name: "orders", Align: render.Right, Number: true}, {Name: "coupons", Align: render.Right, Number: true},
		{Name: "duplicates", Align: render.Right, Number: true}, {Name: "lost", Align: render.Right, Number: true},
	}}
	for _, row := range []struct {
		name  string
		count demoCount
	}{{"without a guard", a.Unguarded}, {"guarded", a.Guarded}} {
		c := &row.count
		t.Add(row.name, strconv.Itoa(c.Orders), strconv.Itoa(c.Coupons), strconv.Itoa(c.Duplicates), strconv.Itoa(c.Lost))
	}
	return render.Result{Value: a, Lines: []any{a}, Tables: []render.Table{t}, Notes: []string{a.verdict()}}
}

// verdict is the last line.
func (a *demoAccount) verdict() string {
	word := "ok"
	if !a.OK {
		word = "FAILED"
	}
	g := &a.Guarded
	return fmt.Sprintf("demo: %s orders=%d coupons=%d duplicates=%d lost=%d", word, g.Orders, g.Coupons, g.Duplicates, g.Lost)
}

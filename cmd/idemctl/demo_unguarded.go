package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemctl/idemctl/internal/mysqlx"
)

// demoTables are the tables of the two consumers. Neither has a unique key: duplicates shall show.
func demoTables() []string {
	const columns = ` (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id VARCHAR(64) NOT NULL,
  user_id  VARCHAR(32) NOT NULL,
  amount   DECIMAL(12,2) NOT NULL,
  source   VARCHAR(64) NOT NULL
) ENGINE=InnoDB`
	return []string{"CREATE TABLE coupon" + columns, "CREATE TABLE coupon_unguarded" + columns}
}

// unguarded shows what a consumer without a guard makes of the incident.
func (d *demo) unguarded(ctx context.Context) (err error) {
	db, err := mysqlx.Open(mysqlx.Options{DSN: d.lab.DSN})
	if err != nil {
		return fmt.Errorf("open the shop: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, statement := range demoTables() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the coupon tables: %w", err)
		}
	}
	in := d.incident
	d.headline("1. The incident: a consumer without a guard")
	d.sayf("%d orders are paid on 11 November from midnight on, in 47 minutes. Upstream\n"+
		"publishes %d of them a second time, under a new offset. Ten minutes in, the\n"+
		"consumer group rebalances before the last %d records of each partition are\n"+
		"committed, so they are read again.\n",
		len(in.orders), demoRepublished, demoRereads)
	// The first member handles records up to where it is at the rebalance; its last commit is older.
	if err := d.consume(ctx, db, in.reached, in.committed); err != nil {
		return fmt.Errorf("the unguarded consumer: %w", err)
	}
	// Its successor begins at that commit, and reads to the end.
	ends := in.first
	for _, r := range in.records {
		ends[r.partition] = r.offset + 1
	}
	if err := d.consume(ctx, db, ends, ends); err != nil {
		return fmt.Errorf("the unguarded consumer, after the rebalance: %w", err)
	}
	return d.showUnguarded(ctx, db)
}

// consume is one member of the group, from its first poll to its leaving: it grants a coupon for each record below until,
// and leaves with the group's offsets at commit.
func (d *demo) consume(ctx context.Context, db *sql.DB, until, commit [demoPartitions]int64) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(d.lab.Brokers...), kgo.ConsumerGroup("coupon-service"), kgo.ConsumeTopics(demoTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer client.Close() // leaves the group
	done := map[int32]bool{}
	for len(done) < demoPartitions {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		var batch []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < until[r.Partition] {
				batch = append(batch, r)
			}
			if r.Offset >= until[r.Partition]-1 {
				done[r.Partition] = true
			}
		})
		if err := mysqlx.WithTx(ctx, db, func(tx *sql.Tx) error { return grantUnguarded(ctx, tx, batch) }); err != nil {
			return err
		}
	}
	offsets := map[int32]kgo.EpochOffset{}
	for p, at := range commit {
		offsets[int32(p)] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	return commitOffsets(ctx, client, offsets)
}

func grantUnguarded(ctx context.Context, tx *sql.Tx, batch []*kgo.Record) error {
	grant, err := tx.PrepareContext(ctx, "INSERT INTO coupon_unguarded (order_id, user_id, amount, source) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer grant.Close() //nolint:errcheck // ends with the transaction
	for _, r := range batch {
		var order demoMessage
		if err := json.Unmarshal(r.Value, &order); err != nil {
			return err
		}
		source := fmt.Sprintf("%s[%d]@%d", r.Topic, r.Partition, r.Offset)
		if _, err := grant.ExecContext(ctx, order.OrderID, order.UserID, order.Amount, source); err != nil {
			return err
		}
	}
	return nil
}

// commitOffsets sets the group's offsets of all partitions.
func commitOffsets(ctx context.Context, client *kgo.Client, offsets map[int32]kgo.EpochOffset) error {
	var failed error
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{demoTopic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	return failed
}

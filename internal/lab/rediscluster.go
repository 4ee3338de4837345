package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// clusterMasters is the least that a Redis Cluster can be made of.
const clusterMasters = 3

// clusterSlots is how many slots a Redis Cluster has.
const clusterSlots = 16384

// RedisCluster is a Redis Cluster of three masters that keeps nothing on disk.
type RedisCluster struct {
	Masters []*Server
}

// StartRedisCluster starts three masters, gives them the slots in equal parts, and returns when each sees the cluster whole.
func StartRedisCluster(ctx context.Context, opts LaunchOptions) (_ *RedisCluster, err error) {
	c := &RedisCluster{Masters: make([]*Server, clusterMasters)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	for i := range c.Masters {
		g.Go(func() (err error) {
			with := opts
			with.Args = append([]string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "5000"}, opts.Args...)
			c.Masters[i], err = AnyRedis(gctx, with)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := c.form(ctx); err != nil {
		return nil, fmt.Errorf("forming a Redis Cluster: %w", err)
	}
	return c, nil
}

// form hands out the slots, introduces the masters to each other, and waits until each has heard of all.
func (c *RedisCluster) form(ctx context.Context) (err error) {
	clients := make([]*redis.Client, len(c.Masters))
	for i, m := range c.Masters {
		clients[i] = redis.NewClient(&redis.Options{Addr: m.Addr})
	}
	defer func() {
		for _, client := range clients {
			err = errors.Join(err, client.Close())
		}
	}()
	host, port, err := net.SplitHostPort(c.Masters[0].Addr)
	if err != nil {
		return err
	}
	for i, client := range clients {
		first, last := clusterSlots*i/len(clients), clusterSlots*(i+1)/len(clients)-1
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return err
		}
		// Without an epoch of its own each would take all slots for contested, and settle that by elections.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i > 0 {
			if err := client.ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		whole := 0
		for _, client := range clients {
			info, err := client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(clients))) {
				whole++
			}
		}
		if whole == len(clients) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Addrs are the masters' addresses: what a client begins with.
func (c *RedisCluster) Addrs() []string {
	addrs := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		addrs[i] = m.Addr
	}
	return addrs
}

// Close kills the masters and removes their folders.
func (c *RedisCluster) Close() error {
	var errs []error
	for _, m := range c.Masters {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

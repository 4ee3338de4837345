package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/idemctl/idemctl/pkg/ledger"
)

// The values of --phantom and --beyond-horizon.
const (
	policyHold    = "hold"
	policyExecute = "execute"
)

// guardFlags say what a guard does with messages that it could run but cannot prove new.
type guardFlags struct {
	phantom        choiceFlag
	beyondHorizon  choiceFlag
	foreignWriters bool
}

// guardOptions are those of a guard that a command opens.
type guardOptions struct {
	phantom, beyondHorizon ledger.Policy
	foreignWriters         bool
	// alwaysLook asks the ledger even where this ledger's own COMPLETED would do.
	alwaysLook bool
	// blind begins also while Redis does not answer.
	blind bool
}

// AddFlags declares the flags.
func (o *guardFlags) AddFlags(fs *pflag.FlagSet) {
	for _, c := range []*choiceFlag{&o.phantom, &o.beyondHorizon} {
		*c = choiceFlag{value: policyHold, allowed: []string{policyHold, policyExecute}}
	}
	fs.Var(&o.phantom, "phantom", "`POLICY` for a COMPLETED marker without a ledger row: hold or execute")
	fs.Var(&o.beyondHorizon, "beyond-horizon", "`POLICY` for a message older than the ledger's memory: hold or execute")
	fs.BoolVar(&o.foreignWriters, "accept-foreign-writers", false, "execute although other services write this biz_type's rows without looking into other months")
}

func (o *guardFlags) guardOptions(alwaysLook bool) guardOptions {
	return guardOptions{phantom: policy(o.phantom), beyondHorizon: policy(o.beyondHorizon), foreignWriters: o.foreignWriters, alwaysLook: alwaysLook}
}

func policy(c choiceFlag) ledger.Policy {
	if c.value == policyExecute {
		return ledger.Run
	}
	return ledger.Hold
}

// guardFilter opens the filter of a guard. A consumer that is blind goes on without Redis, and must not wait for it to begin
// (hazard G14); a password that Redis refuses ends it all the same.
func (a *app) guardFilter(ctx context.Context, opts guardOptions) (*ledger.Filter, error) {
	if !opts.blind {
		return a.Filter(ctx)
	}
	client, err := a.RedisClient()
	if err != nil {
		return nil, err
	}
	err = a.firstContact(ctx, "Redis", a.config.redisAddress(), func(ctx context.Context) error { return client.Ping(ctx).Err() })
	switch {
	case err == nil:
	case ctx.Err() != nil, redisRefuses(err):
		return nil, err
	default:
		a.log().Warn("Redis does not answer: the ledger decides alone until it does", "error", err)
	}
	return a.filterOn(client)
}

// redisRefuses reports that Redis answered, and does not let this user in.
func redisRefuses(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	kind, _, _ := strings.Cut(answer.Error(), " ")
	return slices.Contains([]string{"NOAUTH", "WRONGPASS", "NOPERM"}, kind)
}

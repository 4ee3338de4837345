package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The incident that the demo replays. The numbers are those of the story: 327 coupons too many for 312 users within 47
// minutes, one of them for order 20261111-8842, which was published at order-paid[3]@10233 and, 12 s later, again at @10234.
const (
	demoTopic      = "order-paid"
	demoPartitions = 4
	demoZone       = "Asia/Shanghai"

	demoDefaultOrders = 3000
	demoMinOrders     = 1000
	demoMaxOrders     = 20_000

	storyNumber    = 8842 // of the order, the part behind the date
	storyPartition = 3
	storyOffset    = 10_233
	storyGap       = 12 * time.Second

	demoSaleLasts   = 45 * time.Minute // orders are paid; the last are published again up to 90 s later
	demoRebalance   = 10 * time.Minute // into the sale
	demoRereads     = 20               // records of each partition that the unguarded consumer reads twice
	demoRepublished = 247              // orders that upstream published a second time
	demoBothWays    = 15               // of them are also read twice: their users got three coupons
	demoExtra       = demoRepublished + demoPartitions*demoRereads
	demoAffected    = demoExtra - demoBothWays
)

// demoOrder is one paid order. Each has a user of its own.
type demoOrder struct {
	index     int
	id        string
	user      string
	amount    string // of the order, as a decimal
	paid      time.Time
	partition int32
	// again is how much later upstream published it once more; 0: it did not.
	again time.Duration
}

// demoRecord is one message of the topic.
type demoRecord struct {
	order     *demoOrder
	published time.Time
	partition int32
	offset    int64
}

// demoMessage is a message as the order service writes it.
type demoMessage struct {
	OrderID string `json:"orderId"`
	UserID  string `json:"userId"`
	Amount  string `json:"amount"`
	PaidAt  string `json:"paidAt"`
}

// value is the record's JSON.
func (r *demoRecord) value(zone *time.Location) ([]byte, error) {
	return json.Marshal(demoMessage{r.order.id, r.order.user, r.order.amount, r.order.paid.In(zone).Format("2006-01-02T15:04:05.000Z07:00")})
}

// demoIncident is the whole incident, the same for the same number of orders and seed.
type demoIncident struct {
	zone   *time.Location
	begin  time.Time
	orders []*demoOrder
	story  *demoOrder
	// records are in the order of publication; offsets follow it in each partition.
	records []*demoRecord
	// first is each partition's first offset: what was published before the sale is no longer in the topic.
	first [demoPartitions]int64
	// committed and reached say where the unguarded consumer stood in each partition when the group rebalanced: it had
	// handled the records up to reached, and its last commit was at committed.
	committed, reached [demoPartitions]int64
}

func newDemoIncident(orders int, seed uint64) (*demoIncident, error) {
	if orders < demoMinOrders || orders > demoMaxOrders {
		return nil, fmt.Errorf("%d: expected %d to %d", orders, demoMinOrders, demoMaxOrders)
	}
	zone, err := time.LoadLocation(demoZone)
	if err != nil {
		return nil, fmt.Errorf("the incident's time zone: %w", err)
	}
	in := &demoIncident{zone: zone, begin: time.Date(2026, 11, 11, 0, 0, 0, 0, zone)}
	rnd := rand.New(rand.NewPCG(seed, 0))
	in.makeOrders(orders, rnd)
	if err := in.chooseRepublished(rnd); err != nil {
		return nil, err
	}
	in.publish()
	return in, nil
}

// makeOrders spreads the orders evenly over the sale. The story's own one lies near the end.
func (in *demoIncident) makeOrders(n int, rnd *rand.Rand) {
	const behind = 10 // the story's order has nine tenths of the orders before it, where so many numbers are
	number := max(1, storyNumber-n*(behind-1)/behind)
	step := demoSaleLasts / time.Duration(n)
	for i := range n {
		o := &demoOrder{
			index: i, id: fmt.Sprintf("20261111-%04d", number+i), user: fmt.Sprintf("u%07d", 1_000_003+7*i),
			amount:    fmt.Sprintf("%d.%02d", 20+rnd.IntN(480), rnd.IntN(100)),
			paid:      in.begin.Add(time.Duration(i)*step + time.Duration(rnd.Int64N(int64(step)))).Truncate(time.Millisecond),
			partition: rnd.Int32N(demoPartitions),
		}
		if number+i == storyNumber {
			o.partition, o.again = storyPartition, storyGap
			in.story = o
		}
		in.orders = append(in.orders, o)
	}
	// Between its two records there is no other: what is paid meanwhile goes to other partitions.
	for _, o := range in.orders {
		if o != in.story && o.partition == storyPartition && in.inStoryGap(o.paid) {
			o.partition = rnd.Int32N(storyPartition)
		}
	}
}

func (in *demoIncident) inStoryGap(t time.Time) bool {
	return !t.Before(in.story.paid) && !t.After(in.story.paid.Add(storyGap))
}

var errDemoMix = errors.New("the incident's mix cannot be made with this number of orders and this seed")

// chooseRepublished decides which orders upstream publishes twice, such that the consumer that reads the last records
// before the rebalance twice grants exactly demoExtra coupons too many, to demoAffected users: no second publication
// falls among the records that are read twice, and demoBothWays of those records belong to an order that comes again later.
func (in *demoIncident) chooseRepublished(rnd *rand.Rand) error {
	rebalance := in.begin.Add(demoRebalance)
	var tail [demoPartitions][]*demoOrder // the last of each partition before the rebalance
	for _, o := range in.orders {
		if !o.paid.Before(rebalance) {
			break
		}
		t := &tail[o.partition]
		*t = append(*t, o)
		*t = (*t)[max(0, len(*t)-demoRereads):]
	}
	reread := map[*demoOrder]bool{}
	var both []*demoOrder
	for _, t := range tail {
		if len(t) < demoRereads {
			return errDemoMix
		}
		for _, o := range t {
			reread[o] = true
			both = append(both, o)
		}
	}
	rnd.Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
	for _, o := range both[:demoBothWays] {
		o.again = rebalance.Sub(o.paid) + delay(rnd)
	}
	left := demoRepublished - demoBothWays - 1
	for _, i := range rnd.Perm(len(in.orders)) {
		o := in.orders[i]
		if left == 0 {
			return nil
		}
		again := delay(rnd)
		at := o.paid.Add(again)
		amongReread := !at.Before(tail[o.partition][0].paid) && at.Before(rebalance)
		if o == in.story || reread[o] || amongReread || o.partition == storyPartition && in.inStoryGap(at) {
			continue
		}
		o.again = again
		left--
	}
	return errDemoMix
}

// delay is how long upstream waits before it publishes an order once more.
func delay(rnd *rand.Rand) time.Duration {
	return 5*time.Second + time.Duration(rnd.IntN(85_000))*time.Millisecond
}

// publish lays the records out in time and gives them offsets.
func (in *demoIncident) publish() {
	for _, o := range in.orders {
		in.records = append(in.records, &demoRecord{order: o, published: o.paid, partition: o.partition})
		if o.again > 0 {
			in.records = append(in.records, &demoRecord{order: o, published: o.paid.Add(o.again), partition: o.partition})
		}
	}
	slices.SortStableFunc(in.records, func(a, b *demoRecord) int { return a.published.Compare(b.published) })
	var count, reached [demoPartitions]int64
	var storyAt int64 = -1
	rebalance := in.begin.Add(demoRebalance)
	for _, r := range in.records {
		if r.order == in.story && storyAt < 0 {
			storyAt = count[r.partition]
		}
		r.offset = count[r.partition]
		count[r.partition]++
		if r.published.Before(rebalance) {
			reached[r.partition] = count[r.partition]
		}
	}
	in.first = [demoPartitions]int64{storyOffset - storyAt - 311, storyOffset - storyAt + 128, storyOffset - storyAt - 57, storyOffset - storyAt}
	for _, r := range in.records {
		r.offset += in.first[r.partition]
	}
	for p := range demoPartitions {
		in.reached[p] = in.first[p] + reached[p]
		in.committed[p] = in.reached[p] - demoRereads
	}
}

// coordinates writes a record's place as people do.
func (r *demoRecord) coordinates() string {
	return fmt.Sprintf("%s[%d]@%d", demoTopic, r.partition, r.offset)
}

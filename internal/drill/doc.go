// Package drill sends one stream of messages, and one schedule of faults, through each way of building a consumer that must
// do the work of a message once, and counts what became of every order.
//
// It owns all it touches: two databases, two Redis servers and a Kafka of its own (internal/lab), two relays through which
// consumers reach the database and Redis, so that "failed over" means that the same address reaches the other server, and for
// every run a schema, a topic and a Redis prefix. The engine plays the group's coordinator, so that partitions move where the
// schedule says and not where a timer does; records are fetched from Kafka and offsets are committed to it.
//
// A fault is set by the count of messages, never by time, and a seed decides the places. How strategies meet it depends on
// how their goroutines fall, as in life; how often and where faults come does not.
package drill

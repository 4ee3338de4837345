// Command idemctl is the operators' toolkit over a Kafka consumer made idempotent by a Redis filter and a MySQL ledger.
package main

import "os"

func main() {
	tuneCollector(os.Getenv)
	os.Exit(run(os.Args[1:], systemStreams(), os.Environ))
}

// Package testenv gives each test a schema, a Redis prefix and a topic on real servers.
//
// Three variables point the tests at servers of one's own; each may hold several, separated by spaces, and conformance
// suites then run on all of them, other tests on the first:
//
//	IDEMCTL_TEST_MYSQL_DSN      user:password@tcp(host:port)/   (a schema in it is ignored; the user must be able to create some)
//	IDEMCTL_TEST_REDIS_URL      redis://host:port/0
//	IDEMCTL_TEST_KAFKA_BROKERS  host:port,host:port             (commas within a cluster, spaces between clusters)
//
// What is not named is started on this machine, once per test binary and only when a test asks for it; [Main] ends it.
// `go run ./internal/testenv/serve -- go test ./...` starts one set for all packages and exports the variables.
//
// Nothing is skipped for want of a server: a configured server that does not answer, and a server that this machine does
// not have, fail the test and say what to do. Two are exceptions, since not every machine can have them: a MySQL beside
// MariaDB, and Apache Kafka beside the embedded one. With IDEMCTL_TEST_REQUIRE_ALL=1 they are required too.
package testenv

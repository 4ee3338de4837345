// Package lab starts throw-away servers on this machine's loopback: MariaDB or MySQL, Redis or Valkey, and Kafka, either
// embedded in this process or a real single node. The demo, the drills and the tests stand on it.
//
// It owns what it starts: every server has a data folder of its own in a temporary folder, listens on 127.0.0.1 only, is
// ready when it answers, and ends with this process however that ends. It never touches a server that it did not start.
//
// It does not read the environment: where to look for programs is a [Host], made by the caller.
package lab

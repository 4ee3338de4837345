package kafka

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logAdapter hands the Kafka client's log to slog.
type logAdapter struct{ log *slog.Logger }

// Level leaves out the client's debug log, which has a line per request.
func (logAdapter) Level() kgo.LogLevel { return kgo.LogLevelInfo }

// Log implements kgo.Logger. What the client calls info is debug here: connection by connection it is of no interest to an
// operator. Its errors are warnings here: each is retried or comes back as an error of the call that met it.
func (a logAdapter) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	switch level {
	case kgo.LogLevelError, kgo.LogLevelWarn:
		a.log.Warn(msg, keyvals...) //nolint:sloglint // the message is the client's
	case kgo.LogLevelInfo, kgo.LogLevelDebug, kgo.LogLevelNone:
		a.log.Debug(msg, keyvals...) //nolint:sloglint // the message is the client's
	}
}

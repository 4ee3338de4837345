package lab

import (
	"path/filepath"
	"runtime"
)

// Host says where this machine keeps server programs.
type Host struct {
	// Path holds the folders that are searched for programs, in order.
	Path []string
	// Cache is the folder that `make deps` fills: Cache/kafka-4.4.0 holds Kafka's jars, Cache/servers/NAME-VERSION an
	// unpacked server. Empty: only installed programs are found.
	Cache string
}

// NewHost derives a Host from environment variables (PATH, XDG_CACHE_HOME, HOME), which the caller reads. System folders
// that hold servers but are seldom in a user's PATH are added behind it.
func NewHost(getenv func(string) string) Host {
	h := Host{Path: filepath.SplitList(getenv("PATH"))}
	h.Path = append(h.Path, "/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/usr/libexec",
		"/opt/homebrew/bin", "/opt/homebrew/opt/mariadb/bin", "/opt/homebrew/opt/mysql/bin", "/usr/local/mysql/bin")
	home := getenv("HOME")
	switch {
	case runtime.GOOS == "darwin" && home != "":
		h.Cache = filepath.Join(home, "Library", "Caches", "idemctl")
	case filepath.IsAbs(getenv("XDG_CACHE_HOME")):
		h.Cache = filepath.Join(getenv("XDG_CACHE_HOME"), "idemctl")
	case home != "":
		h.Cache = filepath.Join(home, ".cache", "idemctl")
	}
	return h
}

// KafkaJars is the folder of Apache Kafka's jars, whether it exists or not.
func (h Host) KafkaJars() string { return filepath.Join(h.Cache, "kafka-"+KafkaVersion) }

// Servers is the folder of unpacked servers, whether it exists or not.
func (h Host) Servers() string { return filepath.Join(h.Cache, "servers") }

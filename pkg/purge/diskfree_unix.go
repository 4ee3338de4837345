//go:build linux || darwin || freebsd

package purge

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace is how many bytes an ordinary user may still write to the folder's file system.
func freeSpace(folder string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", folder, err)
	}
	if s.Bavail <= 0 { // signed on some systems
		return 0, nil
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:gosec,unconvert // their types differ by system
}

package purge_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/idemctl/idemctl/internal/testenv"
	"github.com/idemctl/idemctl/pkg/purge"
)

// A disk that fills up in the middle: an error that says so, nothing left behind, and not a row touched.
func TestArchiveDiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root; TestArchiveRefused has the look before it")
	}
	s := newShelf(t, testenv.MySQL(t))
	if err := syscall.Mount("tmpfs", s.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("this machine mounts no tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s.fill(s.table, 20_000)
	_, err := purge.WriteArchive(t.Context(), s.DB, s.selection(), s.options(), 0)
	if !errors.Is(err, purge.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), s.dir) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if got := s.files(); len(got) != 0 {
		t.Errorf("left behind %q", got)
	}
	if n := s.count("SELECT COUNT(*) FROM " + s.table); n != 20_000 {
		t.Errorf("%d rows", n)
	}
	// The real word for free space refuses it before anything is written.
	o := s.options()
	o.FreeSpace = nil
	if _, err := purge.WriteArchive(t.Context(), s.DB, s.selection(), o, 0); !errors.Is(err, purge.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
}

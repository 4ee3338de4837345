package purge

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache asks the kernel to forget what it holds of a file that is on the disk already, so that what is read next is
// what the disk has (hazard P8). A file system that cannot is read as it is.
func dropCache(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

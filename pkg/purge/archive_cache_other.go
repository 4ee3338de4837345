//go:build !linux

package purge

import "os"

// dropCache does nothing: this system cannot be asked to read from the disk.
func dropCache(*os.File) {}

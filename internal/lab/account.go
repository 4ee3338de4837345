package lab

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is a user to run a server as.
type account struct {
	name     string
	uid, gid uint32
}

// databaseAccount is the account that a database started by root should run as: the system's mysql user, when there is
// one and it may enter every folder that the server needs. Otherwise nil, and the server runs as we do: as root it is then
// told so with --user=root, without which it refuses.
//
// The account is set before the program runs. A server that changes its user by itself (--user=mysql) would lose the
// kernel's order to end with us.
func databaseAccount(folders ...string) *account {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return nil
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	for _, f := range folders {
		if !open(f) {
			return nil
		}
	}
	return &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}
}

// open reports that anyone may enter the folder and all above it.
func open(folder string) bool {
	for {
		fi, err := os.Stat(folder)
		if err != nil || fi.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return true
		}
		folder = parent
	}
}

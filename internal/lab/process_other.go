//go:build unix && !linux

package lab

import "syscall"

// dieWithParent does nothing: only Linux ends a child with its parent. Here a killed parent leaves its servers behind.
func dieWithParent(*syscall.SysProcAttr) {}

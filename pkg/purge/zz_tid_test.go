package purge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

func tasks(pid int) map[string]float64 {
	m := map[string]float64{}
	l, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, p := range l {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+2:]))
		u, _ := strconv.ParseFloat(f[11], 64)
		s, _ := strconv.ParseFloat(f[12], 64)
		m[strings.Split(p, "/")[4]] = (u + s) / 100
	}
	return m
}

// watch samples until stop and returns the top diffs.
func watch(pid int) func() string {
	first := tasks(pid)
	last := map[string]float64{}
	done := make(chan bool)
	quit := make(chan bool)
	go func() {
		for {
			for k, v := range tasks(pid) {
				last[k] = v - first[k]
			}
			select {
			case <-quit:
				done <- true
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() string {
		quit <- true
		<-done
		var ks []string
		for k := range last {
			ks = append(ks, k)
		}
		sort.Slice(ks, func(i, j int) bool { return last[ks[i]] > last[ks[j]] })
		s := ""
		for _, k := range ks[:8] {
			s += fmt.Sprintf(" %.2f", last[k])
		}
		return s
	}
}

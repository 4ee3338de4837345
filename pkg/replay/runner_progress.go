package replay

import "time"

// ProgressState is how far a run has come.
type ProgressState struct {
	Records      int64         // with an outcome
	OffsetsDone  int64         // of the pinned range, those that hold no record included
	OffsetsTotal int64         // pinned, so the run ends there
	InFlight     int           // records that wait for another owner
	Elapsed      time.Duration // since the run began
	Rate         float64       // records per second since the run began; 0 while unknown
	ETA          time.Duration // at the pace so far; 0 while unknown, and at the end
}

// Progress receives states from one goroutine at a time, after each page; nil is allowed. It must not block for long.
type Progress func(ProgressState)

func (x *execution) showProgress() {
	if x.progress == nil {
		return
	}
	s := ProgressState{Records: x.records, OffsetsTotal: x.plan.Offsets(), InFlight: len(x.pending)}
	for i := range x.parts {
		s.OffsetsDone += x.parts[i].Next - x.parts[i].Start
	}
	s.Elapsed = x.opts.Now().Sub(x.started)
	if s.Elapsed > 0 {
		s.Rate = float64(s.Records) / s.Elapsed.Seconds()
		if s.OffsetsDone > 0 {
			left := float64(s.OffsetsTotal-s.OffsetsDone) / float64(s.OffsetsDone)
			s.ETA = time.Duration(left * float64(s.Elapsed))
		}
	}
	x.progress(s)
}

package clock

import (
	"testing"
	"time"
)

// A system timer whose function had already begun when the timer was stopped or reset does nothing: its arming is
// over.
func TestStaleSystemTimer(t *testing.T) {
	timer := Real().NewTimer(time.Hour).(*realTimer)
	old := timer.gen
	timer.Stop()
	timer.run(old)
	timer.Reset(time.Hour)
	timer.run(old)
	select {
	case <-timer.C():
		t.Error("an arming that was over sent")
	default:
	}
	timer.run(timer.gen)
	select {
	case <-timer.C():
	default:
		t.Error("the arming that counts did not send")
	}
}

package otlp

import (
	"errors"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
)

func TestPause(t *testing.T) {
	const most = (1<<20 - 1) * time.Second
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "99999999999999999999": most, "-1": 0, "": 0, "soon": 0} {
		if got := pause(after); got != want {
			t.Errorf("%q: %v, want %v", after, got, want)
		}
	}
}

// Whatever an answer says, a batch is delivered, dropped for a cause, or tried again.
func FuzzAnswer(f *testing.F) {
	for _, rejected := range []int64{0, 5, -1, 1 << 62} {
		b, err := proto.Marshal(&collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: rejected, ErrorMessage: "x"}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(200, "application/x-protobuf", b, false)
	}
	f.Add(200, "text/html", []byte("<html>"), false)
	f.Add(200, "", []byte{}, true)
	f.Add(503, "application/x-protobuf", []byte("\xff\xff"), true)
	f.Add(0, "", []byte{}, true)
	f.Fuzz(func(t *testing.T, status int, media string, body []byte, failed bool) {
		a := answer{status: status, media: media}
		a.take(body)
		var err error
		if failed {
			err = errors.New("failed")
		}
		const n = 10
		out := a.outcome(n, err)
		switch {
		case out.Dropped < 0 || out.Dropped > n:
			t.Errorf("%d of %d are dropped", out.Dropped, n)
		case out.Dropped > 0 && (out.Retry || out.Cause == ""):
			t.Errorf("dropped without a cause, or tried again: %+v", out)
		case (out.Dropped > 0 || out.Retry) && out.Err == nil:
			t.Errorf("nothing to report: %+v", out)
		}
	})
}

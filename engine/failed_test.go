package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// A failed exec is a separate event, and changes nothing in the process.
func TestExecFailed(t *testing.T) {
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exec("/bin/env", "x").ExecFails("/a/x", 2).ExecFails("b\xff", 200).Exec("/usr/bin/x").Exit(0)
	q, err := quark.New(m, quark.Options{HoldTime: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var got []string
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Events.String()+" "+ev.Process.Image.Exe)
		if ev.Events != engine.EventExecFailed {
			if ev.Failed != (engine.FailedExec{}) {
				t.Errorf("%s has %+v", ev.Events, ev.Failed)
			}
			continue
		}
		got = append(got, ev.Failed.ErrnoName()+" "+ev.Failed.Path)
		text, json := string(ev.AppendDump(nil)), string(ev.AppendJSON(nil, q.Clock(), "x"))
		wantText, wantJSON := "  FAIL\texec_failed_errno=ENOENT exec_failed_path=/a/x\n", `"exec_failed_errno":"ENOENT","exec_failed_path":"/a/x"`
		if ev.Failed.Errno == 200 {
			wantText = "  FAIL\texec_failed_errno=200 exec_failed_path=b\\xff\n"
			wantJSON = `"exec_failed_errno":"200","exec_failed_path":"b` + "\ufffd" + `","exec_failed_path_b64":"Yv8="`
		}
		if !strings.Contains(text, wantText) || !strings.Contains(json, wantJSON) {
			t.Errorf("%s\n%s\nlack %q and %s", text, json, wantText, wantJSON)
		}
	}
	want := "FORK+EXEC /bin/env,EXEC_FAILED /bin/env,ENOENT /a/x,EXEC_FAILED /bin/env,200 b\xff,EXEC+EXIT /usr/bin/x"
	if got := strings.Join(got, ","); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

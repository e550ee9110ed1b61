package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
)

// twoQueues opens two more queues of each backend, and closes the older of them first.
func twoQueues(t *test) {
	t.watchSingle()
	second, third := t.openEach(quark.Options{}), t.openEach(quark.Options{})
	t.wantWorking("all open")
	t.close(second...)
	t.wantWorking("the second closed")
	t.close(third...)
	t.wantWorking("the third closed")
}

// wantWorking checks that all open queues report a whole life and lose nothing.
func (t *test) wantWorking(when string) {
	before := make(map[*view]uint64)
	t.each(func(v *view) { before[v] = lost(v.stats()) })
	p := t.start([]string{"working", when}, 4)
	t.each(func(v *view) {
		exec := v.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		v.check("EXEC, "+when, exec.Process, p.truth, v.fields(engine.EventExec))
	})
	p.finish(t)
	t.wantLives(1, p.proc)
	t.each(func(v *view) {
		if n := lost(v.stats()) - before[v]; n != 0 {
			v.Errorf("%s: %d lost", when, n)
		}
	})
}

// probeLeftovers kills a process that has a queue open. The next queue has to remove its
// probes, and to leave those of processes that live.
func probeLeftovers(t *test) {
	// The names of groups of probes have the pid of their owner.
	probesOf := func(pid int) (list []string) {
		b, err := tracingFile("kprobe_events")
		if err != nil {
			t.Skipf("no probes can be made here, so that none is left: %v", err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, fmt.Sprintf(":quark_%d_", pid)) {
				list = append(list, strings.TrimSpace(line))
			}
		}
		return list
	}
	probesOf(0)
	if t.backend() != "kprobe" {
		t.open(quark.Options{})
		for _, line := range probesOf(os.Getpid()) {
			t.Errorf("%s makes probes by name, which could be left: %s", t.backend(), line)
		}
		return // as there is nothing to remove
	}
	dead, living := t.holder(), t.holder()
	before := len(probesOf(living.pid))
	if before == 0 {
		t.Fatalf("the scenario did not do its work: process %d has no probes", living.pid)
	}
	dead.kill()
	t.Logf("%d probes of the living, %d of the dead", before, len(probesOf(dead.pid)))

	v := t.open(quark.Options{})
	for _, line := range probesOf(dead.pid) {
		t.Errorf("of the dead process %d is left: %s", dead.pid, line)
	}
	if n := len(probesOf(living.pid)); n != before {
		t.Errorf("%d of %d probes of the living process %d are left", n, before, living.pid)
	}
	t.wantWorking("after leftovers were removed")
	t.close(v)
	if own := probesOf(os.Getpid()); len(own) > 0 {
		t.Errorf("own probes are left: %s", own)
	}

	living.end()
	for _, line := range probesOf(living.pid) {
		t.Errorf("of process %d, which closed its queue, is left: %s", living.pid, line)
	}
}

// holder is a process that has a queue open.
type holder struct {
	pid  int
	end  func() // has it close its queue and end
	kill func()
}

func (t *test) holder() *holder {
	c := exec.Command(t.self())
	c.Env = append(os.Environ(), roleEnv+"=queue:"+t.backend())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatalf("start a process with a queue: %v", err)
	}
	h := &holder{pid: c.Process.Pid}
	h.kill = func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	}
	h.end = func() {
		in.Close()
		t.Waiting("another process to close its queue")
		if err := c.Wait(); err != nil {
			t.Errorf("a process with a queue: %v", err)
		}
	}
	t.Cleanup(h.kill)
	t.Waiting("another process to open a queue")
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ok\n" {
		t.Fatalf("a process with a queue says %q, %v", line, err)
	}
	return h
}

// holdQueue has a queue open until the standard input ends, and does not return.
func holdQueue(backend string) {
	set, err := backends.Parse(backend)
	var q *quark.Queue
	if err == nil {
		q, err = quark.Open(quark.Options{Backends: set, Strict: true})
	}
	if err == nil {
		fmt.Println("ok")
		os.Stdin.Read(make([]byte, 1))
		err = q.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/retry"
)

// slurmNode is a Slurm cluster of only this machine. All its files are in its directory. It has its
// own key, ports, spool and configuration, and is removed at the end of the test.
type slurmNode struct {
	dir string
	env []string // of commands that talk to it
}

// slurmPrograms lists the programs that a node needs, by Debian package.
var slurmPrograms = []struct{ pkg, program string }{
	{"munge", "/usr/sbin/munged"}, {"slurmctld", "/usr/sbin/slurmctld"}, {"slurmd", "/usr/sbin/slurmd"}, {"slurm-client", "/usr/bin/sbatch"},
}

// startSlurm starts a node, or skips the test if that is impossible.
func startSlurm(t *testing.T) *slurmNode {
	if os.Getuid() != 0 {
		t.Skip("slurmd needs root")
	}
	var absent []string
	for _, p := range slurmPrograms {
		if _, err := os.Stat(p.program); err != nil {
			absent = append(absent, p.pkg)
		}
	}
	if len(absent) > 0 {
		t.Skipf("Slurm needs the Debian packages %s: .ci/deps slurm installs them", strings.Join(absent, ", "))
	}
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "quark-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	n := &slurmNode{dir: dir, env: append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := n.configure(); err != nil {
		t.Fatal(err)
	}
	n.daemon(t, "munged", "--foreground", "--force", "--key-file="+n.path("key"), "--socket="+n.path("socket"), "--log-file="+n.path("munged.log"),
		"--pid-file="+n.path("munged.pid"), "--seed-file="+n.path("seed"))
	n.await(t, 20*time.Second, "munged's socket", func() bool { _, err := os.Stat(n.path("socket")); return err == nil })
	n.daemon(t, "slurmctld", "-D")
	n.daemon(t, "slurmd", "-D", "-N", "quark")
	t.Cleanup(func() { n.cancelAll(t) }) // before its daemons end
	n.await(t, 30*time.Second, "an idle node", func() bool { out, _ := n.run("sinfo", "-h", "-o", "%T"); return strings.TrimSpace(out) == "idle" })
	return n
}

func (n *slurmNode) path(name string) string { return filepath.Join(n.dir, name) }

// configure writes the files of a node.
func (n *slurmNode) configure() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	// A job that is queued again waits until its credential has expired, by default 2 minutes.
	conf := fmt.Sprintf(`ClusterName=quark
SlurmctldHost=%s(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=%s,cred_expire=6
SlurmUser=root
SlurmdUser=root
SlurmctldPort=%d
SlurmdPort=%d
StateSaveLocation=%s
SlurmdSpoolDir=%s
SlurmctldPidFile=%s
SlurmdPidFile=%s
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
NodeName=quark NodeAddr=127.0.0.1 CPUs=8 RealMemory=32000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, host, n.path("socket"), ports[0], ports[1], n.path("state"), n.path("spool"), n.path("slurmctld.pid"), n.path("slurmd.pid"))
	// A machine may have no cgroup for slurmd. Slurm 22.05 has no option for this, but needs no
	// cgroup.
	cgroup := ""
	var major, minor int
	version, err := exec.Command("/usr/sbin/slurmd", "-V").Output()
	_, number, _ := strings.Cut(string(version), " ")
	if _, err2 := fmt.Sscanf(number, "%d.%d", &major, &minor); err != nil || err2 != nil {
		return fmt.Errorf("version of slurmd: %w: %q", errors.Join(err, err2), version)
	}
	if major > 23 || major == 23 && minor >= 11 {
		cgroup = "CgroupPlugin=disabled\n"
	}
	return errors.Join(
		os.Chmod(n.dir, 0o755),
		os.Mkdir(n.path("state"), 0o700), os.Mkdir(n.path("spool"), 0o755),
		os.WriteFile(n.path("slurm.conf"), []byte(conf), 0o644),
		os.WriteFile(n.path("cgroup.conf"), []byte(cgroup), 0o644),
		os.WriteFile(n.path("key"), []byte(strings.Repeat("no secret: this node is gone in a minute. ", 10)), 0o600),
	)
}

// daemon runs a daemon until the test ends. Its output goes to a file.
func (n *slurmNode) daemon(t *testing.T, name string, args ...string) {
	out, err := os.Create(n.path(name + ".out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/usr/sbin/"+name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
	})
}

// run runs a command of Slurm, or a command that calls one.
func (n *slurmNode) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = n.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// await waits until a condition holds. If it fails, it prints the output of the daemons.
func (n *slurmNode) await(t *testing.T, limit time.Duration, what string, so func() bool) {
	t.Helper()
	for range retry.For(limit) {
		if so() {
			return
		}
	}
	logs, _ := n.run("squeue")
	for _, name := range []string{"munged.log", "slurmctld.out", "slurmd.out"} {
		b, _ := os.ReadFile(n.path(name))
		logs += fmt.Sprintf("== %s\n%s", name, b[max(0, len(b)-2000):])
	}
	t.Fatalf("no %s after %v:\n%s", what, limit, logs)
}

// jobs returns the number of queued and running jobs.
func (n *slurmNode) jobs() int {
	out, err := n.run("squeue", "-h", "-r")
	if err != nil {
		return -1
	}
	return strings.Count(out, "\n")
}

// cancelAll cancels the jobs that a failed test has left behind.
func (n *slurmNode) cancelAll(t *testing.T) {
	if n.jobs() == 0 {
		return
	}
	n.run("scancel", "--me", "--full", "--signal=KILL")
	n.run("scancel", "--me")
	for range retry.For(20 * time.Second) {
		if n.jobs() == 0 {
			return
		}
	}
	t.Error("jobs still exist")
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSlurm runs shards of the matrix as jobs of a Slurm cluster, with guests that end at once. One
// shard is killed while it runs, and is queued again. The merged table equals that of a run without
// Slurm.
func TestSlurm(t *testing.T) {
	node := startSlurm(t)
	root := slurmTree(t, "one", "two-held", "bad", "three")
	hold := filepath.Join(root, "hold")
	if err := os.WriteFile(hold, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	node.env = append(node.env, "QUARK_MATRIX_ITSELF=1", "KRUN_ACCEL=tcg", "GOARCH=amd64", "GOHOSTARCH=amd64", "PREPARED=1",
		"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(root, "cache"), holdEnv+"="+hold)
	// Meanwhile a shard that can't run on any node is tried three times. The merge reports that
	// the shard has no results.
	s := slurmRun{node, root, 1, []string{"KERNELS=local/four", "PKG="}}
	impossible := s.submit(t, "test-kernel")

	s.shards, s.vars = 3, []string{"KERNELS=local/*", "PKG="}
	results := s.submit(t, "test-kernel")
	s.kill(t, results, "two-held", func() {
		if err := os.Remove(hold); err != nil {
			t.Fatal(err)
		}
	})
	s.finish(t, 2*time.Minute)
	s.compare(t, results, "local/two-held  release-of-two-held  present", "FRESH=1")
	if got := read(t, filepath.Join(results, "merge.txt")); !strings.Contains(got, "\n14 passed, 2 failed, 0 skipped\n") {
		t.Errorf("got merged table:\n%s", got)
	}

	if got := read(t, filepath.Join(impossible, "shards", "1.txt")); strings.Count(got, "no kernel \"local/four\"") != 3 {
		t.Errorf("got output of a shard that can't run:\n%s", got)
	}
	if got := read(t, filepath.Join(impossible, "merge.txt")); !strings.Contains(got, "no results in ") {
		t.Errorf("got output of merging nothing:\n%s", got)
	}
}

// slurmTree makes a directory like a clone of the repository, with kernels that only the emulator
// of these tests boots.
func slurmTree(t *testing.T, kernels ...string) string {
	root := t.TempDir()
	self, err := os.Executable()
	err = errors.Join(err, os.MkdirAll(filepath.Join(root, "build", "amd64"), 0o755), os.MkdirAll(filepath.Join(root, "bin"), 0o755),
		os.MkdirAll(filepath.Join(root, "kernel_images", "local"), 0o755),
		os.WriteFile(filepath.Join(root, "initramfs.gz"), []byte("x"), 0o644))
	copied := []string{"Makefile", "docs/slurm.sh"}
	makefile, err2 := os.ReadFile("../../Makefile")
	err = errors.Join(err, err2)
	for _, m := range regexp.MustCompile(`(?m)^include (.*)$`).FindAllStringSubmatch(string(makefile), -1) {
		copied = append(copied, strings.Fields(m[1])...)
	}
	for _, name := range copied {
		to := filepath.Join(root, name)
		b, err2 := os.ReadFile(filepath.Join("../..", name))
		err = errors.Join(err, err2, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o755))
	}
	for _, name := range []string{"build/amd64/quark-matrix", "bin/qemu-system-x86_64"} {
		err = errors.Join(err, os.Symlink(self, filepath.Join(root, name)))
	}
	for _, name := range kernels {
		image := make([]byte, 1024)
		copy(image[0x202:], "HdrS")
		image = append(image, "\x01"+name...)
		err = errors.Join(err, os.WriteFile(filepath.Join(root, "kernel_images", "local", name), image, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// slurmRun is one run of docs/slurm.sh.
type slurmRun struct {
	*slurmNode
	root   string
	shards int
	vars   []string // of make
}

// submit submits the shards of a target, and returns the directory of its results.
func (s *slurmRun) submit(t *testing.T, target string, vars ...string) (results string) {
	t.Helper()
	results = filepath.Join(t.TempDir(), target)
	cmd := exec.Command(filepath.Join(s.root, "docs", "slurm.sh"), append([]string{"--cpus-per-task=2", "--mem=0", target}, slices.Concat(s.vars, vars)...)...)
	cmd.Env = append(s.env, "RESULTS="+results, "SHARDS="+strconv.Itoa(s.shards))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("%d shards are job ", s.shards)) {
		t.Fatalf("submit: %v\n%s", err, out)
	}
	return results
}

// kill waits until a guest of that kernel has printed something. It kills the quark-matrix of that
// shard with SIGKILL, and calls then.
func (s *slurmRun) kill(t *testing.T, results, kernel string, then func()) {
	t.Helper()
	pid := 0
	s.await(t, 5*time.Minute, "shard with a guest of "+kernel, func() bool {
		said, _ := filepath.Glob(filepath.Join(results, "shards", "*", "guests", "*"+kernel+"*", "records.jsonl"))
		if len(said) == 0 {
			if s.jobs() == 0 {
				all, _ := filepath.Glob(filepath.Join(results, "*.txt"))
				t.Fatalf("the jobs are over without a guest of %s: %s", kernel, read(t, append(all, os.DevNull)[0]))
			}
			return false
		}
		if st, err := os.Stat(said[0]); err != nil || st.Size() == 0 {
			return false
		}
		shard, _, _ := strings.Cut(said[0], "/guests/")
		pid = matrixOf(shard)
		return pid != 0
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.await(t, 30*time.Second, "shard that is queued again", func() bool {
		all, _ := filepath.Glob(filepath.Join(results, "shards", "*.txt"))
		return slices.ContainsFunc(all, func(name string) bool {
			b, _ := os.ReadFile(name)
			return bytes.Contains(b, []byte("has no results: it is queued again"))
		})
	})
	then()
}

// matrixOf returns the pid of the quark-matrix that writes to a directory, 0 for none.
func matrixOf(dir string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		b, _ := os.ReadFile(name)
		words := strings.Split(string(b), "\x00")
		if filepath.Base(words[0]) == "quark-matrix" && slices.Contains(words, dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return pid
		}
	}
	return 0
}

// finish waits for the end of all jobs.
func (s *slurmRun) finish(t *testing.T, limit time.Duration) {
	t.Helper()
	s.await(t, limit, "end of the jobs", func() bool { return s.jobs() == 0 })
}

// times matches text that differs between runs: seconds, and the word for a cached result.
var times = regexp.MustCompile(`^(\d+\.\d|cached)$`)

// table returns the lines of a table without times, and the sum.
func table(text string) string {
	_, text, _ = strings.Cut(text, "\nkernel ")
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " guests in ") || strings.HasPrefix(line, "make") {
			continue
		}
		words := slices.DeleteFunc(strings.Fields(line), times.MatchString)
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// compare runs the same guests without Slurm, and compares the tables. It returns the merged table,
// which must have a line that begins with want.
func (s *slurmRun) compare(t *testing.T, results, want string, vars ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"--no-print-directory", "test-kernel", "STEP=run", "MATRIX=" + filepath.Join(t.TempDir(), "whole")}, slices.Concat(s.vars, vars)...)...)
	cmd.Dir, cmd.Env = s.root, s.env
	out, err := cmd.CombinedOutput()
	merged := read(t, filepath.Join(results, "merge.txt"))
	if a, b := table(string(out)), table(merged); a != b || !strings.Contains(merged, "\n"+want) {
		t.Errorf("without Slurm (%v):\n%s\nmerged:\n%s\nthe whole outputs:\n%s\n%s", err, a, b, out, merged)
	}
	return merged
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

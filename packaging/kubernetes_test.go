package packaging

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKubernetes checks the files for Kubernetes by the types of its API, and that the options,
// targets and variables that they name are there.
func TestKubernetes(t *testing.T) {
	if os.Getenv("QUARK_KUBERNETES") == "" {
		t.Skip("needs modules of Kubernetes: make test-kubernetes")
	}
	cmd := exec.Command("go", "run", ".", "../../../docs/kubernetes.yaml", "../../../docs/kubernetes-matrix.yaml")
	cmd.Dir = "testdata/kubernetes"
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	type container struct {
		Args []string
		Env  []struct{ Name, Value string }
	}
	var pods [2][]container
	decoder := json.NewDecoder(bytes.NewReader(out))
	for i := range pods {
		if err := decoder.Decode(&pods[i]); err != nil || len(pods[i]) != 1 {
			t.Fatalf("containers %v, %v", pods[i], err)
		}
	}
	// An option that is not there is an error before the version is printed.
	monitor := pods[0][0].Args
	if p := readPod(t); !slices.Equal(monitor, p.args) {
		t.Errorf("the arguments are %q, and TestImageAsContainer runs the image with %q", monitor, p.args)
	}
	args := slices.Concat([]string{"run", "../cmd/quark-mon"}, monitor, []string{"-V"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("quark-mon %q: %v, %s", monitor, err, out)
	}

	shard, env := pods[1][0], make(map[string]string)
	for _, v := range shard.Env {
		env[v.Name] = v.Value
	}
	if out, err := exec.Command("bash", "-n", "-euc", shard.Args[0]).CombinedOutput(); err != nil {
		t.Errorf("the script: %v, %s", err, out)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/kubernetes-matrix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	target, _, _ := strings.Cut(env["TARGET"], " ")
	for _, name := range []string{target, "league", "test-kernel-merge", "league-merge"} {
		if !strings.Contains(string(text), name) || !regexp.MustCompile(`(?m)^`+name+`:`).Match(makefile) {
			t.Errorf("there is no target %q", name)
		}
	}
	words := regexp.MustCompile(`\b([A-Z]+)=`)
	for _, m := range words.FindAllStringSubmatch(string(text), -1) {
		if !bytes.Contains(makefile, []byte("$("+m[1]+")")) {
			t.Errorf("the Makefile has no variable %s", m[1])
		}
	}
}

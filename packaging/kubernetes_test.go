package packaging

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestKubernetes checks the file for Kubernetes by the types of its API, and that the options that
// it names exist.
func TestKubernetes(t *testing.T) {
	if os.Getenv("QUARK_KUBERNETES") == "" {
		t.Skip("needs modules of Kubernetes: make test-kubernetes")
	}
	cmd := exec.Command("go", "run", ".", "../../../docs/kubernetes.yaml")
	cmd.Dir = "testdata/kubernetes"
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	var containers []struct{ Args []string }
	if err := json.Unmarshal(out, &containers); err != nil || len(containers) != 1 {
		t.Fatalf("containers %v, %v", containers, err)
	}
	// An option that is not there is an error before the version is printed.
	monitor := containers[0].Args
	if p := readPod(t); !slices.Equal(monitor, p.args) {
		t.Errorf("the arguments are %q, and TestImageAsContainer runs the image with %q", monitor, p.args)
	}
	args := slices.Concat([]string{"run", "../cmd/quark-mon"}, monitor, []string{"-V"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("quark-mon %q: %v, %s", monitor, err, out)
	}
}

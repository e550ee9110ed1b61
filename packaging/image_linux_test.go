package packaging

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// pod has the settings of the container in docs/kubernetes.yaml.
type pod struct {
	args         []string
	capabilities []string
	hostPID      bool
}

// readPod reads the relevant lines of docs/kubernetes.yaml.
func readPod(t *testing.T) (p pod) {
	t.Helper()
	text, err := os.ReadFile("../docs/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list := func(name string) (values []string) {
		m := regexp.MustCompile(`(?m)^ +` + name + `: \[(.*)\]$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("docs/kubernetes.yaml has no %s", name)
		}
		return strings.Split(string(m[1]), ", ")
	}
	p.args = list("args")
	if drop := list("drop"); !slices.Equal(drop, []string{"ALL"}) {
		t.Errorf("got dropped capabilities %q", drop)
	}
	for _, name := range list("add") {
		p.capabilities = append(p.capabilities, "CAP_"+name)
	}
	p.hostPID = regexp.MustCompile(`(?m)^ +hostPID: true$`).Match(text)
	return p
}

// runPod runs the image's quark-mon like the runtime of a node, and returns its output.
func runPod(t *testing.T, root string, p pod, options ...string) (stdout, stderr string, err error) {
	t.Helper()
	type object = map[string]any
	namespaces := []object{{"type": "mount"}, {"type": "uts"}, {"type": "ipc"}, {"type": "network"}, {"type": "cgroup"}}
	linux := object{"cgroupsPath": fmt.Sprintf("/quark-image-%d", os.Getpid()),
		"maskedPaths": []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"}, "readonlyPaths": []string{"/proc/sys", "/proc/bus"}}
	if !p.hostPID {
		namespaces = append(namespaces, object{"type": "pid"})
	}
	linux["namespaces"] = namespaces
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2", "linux": linux, "root": object{"path": root, "readonly": true},
		"process": object{
			"args": append(append([]string{"/usr/bin/quark-mon"}, p.args...), options...), "cwd": "/", "user": object{"uid": 0, "gid": 0},
			"noNewPrivileges": true, "env": []string{"PATH=/usr/bin"},
			"capabilities": object{"bounding": p.capabilities, "effective": p.capabilities, "permitted": p.capabilities},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "noexec", "nodev", "ro"}},
		},
	})
	dir := t.TempDir()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("quark-image-%d", os.Getpid())
	c := exec.CommandContext(ctx, "runc", "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, name)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	// After a normal end there is no container to delete.
	exec.Command("runc", "--root", filepath.Join(dir, "state"), "delete", "--force", name).Run()
	return out.String(), errs.String(), err
}

// descriptor names a blob of an OCI layout.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

// unpackImage unpacks the layer of an archive's image for this architecture into a directory.
func unpackImage(t *testing.T, archive, root string) {
	t.Helper()
	layout := t.TempDir()
	untar := func(from, to string) {
		if out, err := exec.Command("tar", "-C", to, "-xf", from).CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v\n%s", from, err, out)
		}
	}
	untar(archive, layout)
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.Replace(d.Digest, ":", "/", 1))
	}
	read := func(path string) (index struct{ Manifests, Layers []descriptor }) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &index)
		}
		if err != nil {
			t.Fatal(err)
		}
		return index
	}
	outer := read(filepath.Join(layout, "index.json"))
	if len(outer.Manifests) != 1 {
		t.Fatalf("got %d names in the archive", len(outer.Manifests))
	}
	for _, image := range read(blob(outer.Manifests[0])).Manifests {
		if image.Platform.Architecture == runtime.GOARCH {
			for _, layer := range read(blob(image)).Layers {
				untar(blob(layer), root)
			}
			return
		}
	}
	t.Fatalf("no image for %s", runtime.GOARCH)
}

// TestImageAsContainer runs the image with the settings of docs/kubernetes.yaml, and without each
// of them. make test-dist runs it.
func TestImageAsContainer(t *testing.T) {
	archive := os.Getenv("QUARK_IMAGE")
	if archive == "" {
		t.Skip("QUARK_IMAGE does not name an image: make test-dist does")
	}
	root := t.TempDir()
	unpackImage(t, archive, root)
	for _, mountPoint := range []string{"proc", "sys", "dev"} {
		if err := os.Mkdir(filepath.Join(root, mountPoint), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := readPod(t)

	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				exec.Command("/bin/echo", "outside", "the", "container").Run()
			}
		}
	}()
	out, errs, err := runPod(t, root, p, "-d", "3s")
	close(stop)
	if err != nil || !strings.Contains(errs, "quark-mon: backend ebpf") {
		t.Errorf("%v: %s", err, errs)
	}
	if !strings.Contains(out, `"args":["/bin/echo","outside","the","container"]`) {
		t.Errorf("%d bytes of output contain no process of the host", len(out))
	}

	// A missing setting is reported by name. Kubernetes itself rejects a user namespace with
	// hostPID.
	for words, change := range map[string]func(*pod){
		"hostPID: true":           func(p *pod) { p.hostPID = false },
		"CAP_BPF and CAP_PERFMON": func(p *pod) { p.capabilities = []string{"CAP_SYS_PTRACE"} },
	} {
		changed := p
		change(&changed)
		if _, errs, err := runPod(t, root, changed, "-d", "1s"); err == nil || !strings.Contains(errs, words) {
			t.Errorf("%s: %v: %s", words, err, errs)
		}
	}
}

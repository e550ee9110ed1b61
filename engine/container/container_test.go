package container

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	a64   = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
	b64   = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
	uid   = "a5c1f8d5-1919-434d-add7-4afaafdaef89"
	uid_  = "a5c1f8d5_1919_434d_add7_4afaafdaef89"
	hash  = "187bff14cccb94f179e943eacce55bb3" // of a pod that the kubelet read from a file
	user  = "/user.slice/user-1000.slice/user@1000.service"
	burst = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
)

func TestOf(t *testing.T) {
	for path, want := range map[string]Container{
		"/docker/" + a64:                                            {a64, "docker", "", "", "/"},
		"/docker/" + a64 + "/init.scope":                            {a64, "docker", "", "", "/init.scope"},
		"/system.slice/docker-" + a64 + ".scope":                    {a64, "docker", "", "", "/"},
		"/builds.slice/docker-" + a64 + ".scope/x":                  {a64, "docker", "", "", "/x"},
		"/system.slice:docker:" + a64:                               {a64, "docker", "", "", "/"},
		"/actions_job/" + a64:                                       {a64, "docker", "", "", "/"},
		"/ecs/0123/" + a64:                                          {a64, "", "", "", "/"},
		"/ecs/cluster/0123/" + a64 + "/x":                           {a64, "", "", "", "/x"},
		"/ecstasks.slice/ecstasks-0.slice/docker-" + a64 + ".scope": {a64, "docker", "", "", "/"},
		user + "/user.slice/docker-" + a64 + ".scope":               {a64, "docker", "", "user@1000.service", "/"},

		"/default/" + a64:                              {a64, "containerd", "", "", "/"},
		"/k8s.io/" + a64:                               {a64, "containerd", "", "", "/"},
		"/system.slice/nerdctl-" + a64 + ".scope":      {a64, "containerd", "", "", "/"},
		user + "/user.slice/nerdctl-" + a64 + ".scope": {a64, "containerd", "", "user@1000.service", "/"},
		"/system.slice/system-getty.slice/cri-containerd-" + a64 + ".scope": {a64, "containerd", "", "", "/"},

		"/kubepods/pod" + uid + "/" + a64:                                                 {a64, "", uid, "", "/"},
		"/kubepods/besteffort/pod" + uid + "/" + a64:                                      {a64, "", uid, "", "/"},
		"/kubepods/burstable/pod" + hash + "/" + a64:                                      {a64, "", hash, "", "/"},
		"/kubepods/burstable/pod" + uid + "/crio-" + a64:                                  {a64, "cri-o", uid, "", "/"},
		burst + uid_ + ".slice/docker-" + a64 + ".scope":                                  {a64, "docker", uid, "", "/"},
		burst + uid_ + ".slice/cri-containerd-" + a64 + ".scope":                          {a64, "containerd", uid, "", "/"},
		burst + hash + ".slice/cri-containerd-" + a64 + ".scope":                          {a64, "containerd", hash, "", "/"},
		burst + uid_ + ".slice/crio-" + a64 + ".scope/container/system":                   {a64, "cri-o", uid, "", "/container/system"},
		"/kubepods.slice/kubepods-pod" + uid_ + ".slice/cri-containerd-" + a64 + ".scope": {a64, "containerd", uid, "", "/"},
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uid_ +
			".slice/cri-containerd-" + a64 + ".scope": {a64, "containerd", uid, "", "/"},
		"/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + a64: {a64, "containerd", uid, "", "/"},
		"/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + a64: {
			a64, "containerd", uid, "containerd.service", "/"},

		"/machine.slice/libpod-" + a64 + ".scope":                                            {a64, "podman", "", "", "/"},
		"/machine.slice/libpod-" + a64 + ".scope/container":                                  {a64, "podman", "", "", "/container"},
		"/machine.slice/machine-libpod_pod_" + b64 + ".slice/libpod-" + a64 + ".scope":       {a64, "podman", b64, "", "/"},
		"/libpod_parent/libpod-" + a64:                                                       {a64, "podman", "", "", "/"},
		"/libpod_parent/" + b64 + "/libpod-" + a64 + "/ctr":                                  {a64, "podman", b64, "", "/ctr"},
		user + "/user.slice/libpod-" + a64 + ".scope/container":                              {a64, "podman", "", "user@1000.service", "/container"},
		user + "/user.slice/user-libpod_pod_" + b64 + ".slice/libpod-" + a64 + ".scope":      {a64, "podman", b64, "user@1000.service", "/"},
		"/system.slice/web.service/libpod-payload-" + a64:                                    {},
		"/system.slice/web.service/libpod-" + a64:                                            {a64, "podman", "", "web.service", "/"},
		"/user.slice/user-1000.slice/session-2.scope/libpod_parent/libpod-" + a64 + "/x/y/z": {a64, "podman", "", "session-2.scope", "/x/y/z"},

		"/lxc/web":                          {"web", "lxc", "", "", "/"},
		"/lxc/101/ns/init.scope":            {"101", "lxc", "", "", "/ns/init.scope"},
		"/lxc.payload/web":                  {"web", "lxc", "", "", "/"},
		"/lxc.payload.web-1/ns/x":           {"web-1", "lxc", "", "", "/ns/x"},
		user + "/app.slice/lxc.payload.web": {"web", "lxc", "", "user@1000.service", "/"},

		"/machine.slice/systemd-nspawn@web.service/payload":               {"web", "systemd-nspawn", "", "", "/payload"},
		`/machine.slice/systemd-nspawn@my\x2dbox.service/payload/a.scope`: {"my-box", "systemd-nspawn", "", "", "/payload/a.scope"},
		"/machine.slice/systemd-nspawn@web.service/init.scope":            {"web", "systemd-nspawn", "", "", "/init.scope"},
		`/machine.slice/machine-my\x2dbox\x.scope/payload/init.scope`:     {`my-box\x`, "systemd-nspawn", "", "", "/payload/init.scope"},
		`/machine.slice/machine-a\xzzb\x41.scope/payload`:                 {`a\xzzbA`, "systemd-nspawn", "", "", "/payload"},

		"/system.slice/runc-web.scope":  {"web", "runc", "", "", "/"},
		"/system.slice/crun-a-b.scope/": {"a-b", "crun", "", "", "/"},

		// The outermost name decides, whatever names are inside.
		"/docker/" + a64 + "/docker/" + b64:                                        {a64, "docker", "", "", "/docker/" + b64},
		"/lxc.payload.web/system.slice/docker-" + b64 + ".scope":                   {"web", "lxc", "", "", "/system.slice/docker-" + b64 + ".scope"},
		"/docker/" + a64 + "/kubelet/kubepods/pod" + uid + "/" + b64:               {a64, "docker", "", "", "/kubelet/kubepods/pod" + uid + "/" + b64},
		"/system.slice/x.service" + burst + uid_ + ".slice/crio-" + a64 + ".scope": {a64, "cri-o", uid, "x.service", "/"},

		// Monitors, parents of containers, and names that are nearly a container's.
		"": {}, "/": {}, "//": {}, "docker": {}, "/docker": {}, "/docker/": {}, "/lxc": {}, "/lxc/": {}, "/lxc.payload.": {},
		"/init.scope":                                                {},
		"/system.slice/docker.service":                               {},
		"/system.slice/docker-" + a64 + ".service":                   {},
		"/system.slice/docker-" + a64:                                {},
		"/system.slice/docker-" + a64[1:] + ".scope":                 {},
		"/system.slice/docker-" + strings.ToUpper(a64) + ".scope":    {},
		"/docker/buildkit":                                           {},
		"/docker/buildkit/" + a64:                                    {},
		"/lxc.monitor.web":                                           {},
		"/lxc.monitor/web":                                           {},
		"/machine.slice/libpod-conmon-" + a64 + ".scope":             {},
		"/libpod_parent/conmon":                                      {},
		"/libpod_parent/" + b64 + "/conmon":                          {},
		"/machine.slice/systemd-nspawn@web.service":                  {},
		"/machine.slice/systemd-nspawn@web.service/supervisor":       {},
		"/machine.slice/systemd-nspawn@.service/payload":             {},
		"/machine.slice/machine-web.scope":                           {},
		`/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/vcpu0`: {},
		"/kubepods/burstable/pod" + uid:                              {},
		"/kubepods/burstable/podx/" + a64:                            {},
		"/pod" + uid + "/" + a64:                                     {},
		"/elsewhere/" + a64:                                          {},
		burst + uid_ + ".slice/crio-conmon-" + a64 + ".scope":        {},
		burst + uid_ + ".slice:crio":                                 {},
		"/system.slice/runc-.scope":                                  {},
		user + "/app.slice/app-firefox.scope":                        {},
	} {
		if d := cmp.Diff(want, Of(path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
		if want.Runtime != "" && !slices.Contains(Runtimes, want.Runtime) {
			t.Errorf("Runtimes lacks %s", want.Runtime)
		}
	}
}

// Of does not allocate, unless it must unescape a name of systemd.
func TestNoAllocation(t *testing.T) {
	path := "/kubepods/burstable/pod" + uid + "/crio-" + a64 + "/x"
	if n := testing.AllocsPerRun(100, func() { Of(path) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func FuzzOf(f *testing.F) {
	for _, path := range []string{
		"/docker/" + a64 + "/docker/" + b64, burst + uid_ + ".slice/crio-" + a64 + ".scope/x", user + "/a.service/lxc.payload.web",
		"/kubepods/pod" + uid + "/" + a64, `/machine.slice/machine-my\x2dbox.scope/payload`, "/a.slice:docker:" + a64,
		"/libpod_parent/" + b64 + "/libpod-" + a64, "/ecs/a/" + a64, "/machine.slice/systemd-nspawn@web.service/payload",
	} {
		f.Add(path, "docker-"+b64+".scope")
	}
	f.Fuzz(func(t *testing.T, path, below string) {
		c := Of(path)
		switch {
		case c.ID == "":
			if c != (Container{}) {
				t.Fatalf("got a container without an id: %+v", c)
			}
			return
		case !strings.HasSuffix(path, c.Inside) && c.Inside != "/", !strings.Contains(path, c.Unit):
			t.Fatalf("%q: got members that are not in the path: %+v", path, c)
		}
		// No name inside the container changes the result, and no unit can hide that a
		// cgroup is its own.
		c.Inside = ""
		inner := Of(strings.TrimSuffix(path, "/") + "/" + below)
		if inner.Inside = ""; inner != c && !strings.Contains(path, "systemd-nspawn@") {
			t.Errorf("%q: got %+v, with a name inside %+v", path, c, inner)
		}
		if own := Of("/a.service/" + path); own.Unit != "a.service" || own.ID == "" {
			t.Errorf("%q in a unit: got %+v", path, own)
		}
	})
}

func ExampleOf() {
	c := Of("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + a64 + ".scope/container")
	fmt.Println(c.Runtime, c.ID[:12], "says", c.Unit)
	// Output: podman 4f797c539e6c says user@1000.service
}

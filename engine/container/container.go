// Package container identifies the container of a process by the path of its cgroup.
//
// Runtimes put the container's id into the name of its cgroup. [Of] recognises these names: those
// of docker, containerd, CRI-O, podman, LXC and systemd-nspawn, with and without systemd, in cgroup
// v1 and v2; the kubelet's names for pods; and those of runc and crun with systemd. Without
// systemd, the user of runc and crun chooses the whole name.
//
// A name is only as trustworthy as its creator. The outermost component that names a container
// decides, as processes in the container can create the names below it. If a systemd unit manages
// the cgroups below its own, as a user's manager does, the unit's processes can give them any name.
// Then Container.Unit names the unit. If root delegated a cgroup without a unit, the path does not
// show it.
package container

import "strings"

// Container is a container as described by the path of a cgroup. It is the zero Container if the
// path has no container name that quark recognises.
type Container struct {
	// ID is the runtime's name of the container: 64 hexadecimal digits, or for LXC,
	// systemd-nspawn, runc and crun a name chosen by the user.
	ID string
	// Runtime created the container. It is one of Runtimes, or empty if the name does not show
	// it.
	Runtime string
	// Pod is the uid of the Kubernetes pod or the id of the podman pod, empty for none.
	Pod string
	// Unit is the systemd unit whose cgroup contains this one, such as "user@1000.service", or
	// empty. The other members are only as trustworthy as this unit.
	Unit string
	// Inside is the rest of the path, "/" in the container's own cgroup. Processes in the
	// container may have created it: Of(Inside) is the inner container that they claim to be
	// in.
	Inside string
}

// Runtimes are the values of Container.Runtime.
var Runtimes = []string{"docker", "containerd", "cri-o", "podman", "lxc", "systemd-nspawn", "runc", "crun"}

// scopes are prefixes of the names that runtimes give to their cgroups. An id follows the prefix.
var scopes = []struct {
	prefix, runtime string
	chosen          bool // a user chooses the id
	unit            bool // the name must end in ".scope"
}{
	{"docker-", "docker", false, true},
	{"cri-containerd-", "containerd", false, false},
	{"nerdctl-", "containerd", false, true},
	{"crio-", "cri-o", false, false},
	{"libpod-", "podman", false, false},
	{"runc-", "runc", true, true},
	{"crun-", "crun", true, true},
}

// parents maps cgroups to the runtime that created them. The names of their children are container
// ids.
var parents = map[string]string{
	"docker": "docker", "actions_job": "docker", "moby": "docker", "k8s.io": "containerd", "default": "containerd", "ecs": "",
}

// Of returns the container of a cgroup. The path is relative to the root of a hierarchy, as in
// /proc/PID/cgroup.
func Of(cgroup string) Container {
	var c Container
	kubepods, parent := false, ""
	for rest := cgroup; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if c.Inside = "/"; rest != "" {
			c.Inside = cgroup[len(cgroup)-len(rest)-1:]
		}
		// The runtime wrote a name for systemd, with colons, and systemd did not create the
		// cgroup.
		slice, scope, joined := strings.Cut(name, ":")
		kubepods = kubepods || name == "kubepods"
		c.Pod = podOf(slice, parent, kubepods, c.Pod)
		if joined && c.named(strings.Replace(scope, ":", "-", 1), true) || c.has(name, parent) {
			return c
		}
		if c.Unit == "" && (strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope")) {
			c.Unit = name
		}
		if parent != "ecs" { // tasks of ecs have such ids, too
			parent = name
		}
	}
	return Container{}
}

// has reports whether a cgroup belongs to a container, and sets its id and runtime.
func (c *Container) has(name, parent string) bool {
	runtime, of := parents[parent]
	uid, inPod := strings.CutPrefix(parent, "pod")
	if isID(name) && (of || inPod && uid == c.Pod) {
		c.ID, c.Runtime = name, runtime
		return true
	}
	id, ok := strings.CutPrefix(name, "lxc.payload.")
	if ok = ok || parent == "lxc" || parent == "lxc.payload"; ok && id != "" {
		c.ID, c.Runtime = id, "lxc"
		return true
	}
	// systemd-nspawn itself runs in the cgroup, or in its child "supervisor". The scope of a
	// machine may also be a virtual machine.
	id, ok = between(name, "systemd-nspawn@", ".service")
	if ok = ok && c.Inside != "/" && !within(c.Inside, "/supervisor"); !ok {
		id, ok = between(name, "machine-", ".scope")
		ok = ok && within(c.Inside, "/payload")
	}
	if ok {
		c.ID, c.Runtime = unescape(id), "systemd-nspawn"
		return true
	}
	scope, unit := strings.CutSuffix(name, ".scope")
	return c.named(scope, unit)
}

// named reports whether a prefix and an id name a container.
func (c *Container) named(name string, unit bool) bool {
	for i := range scopes {
		s := &scopes[i]
		if id, ok := strings.CutPrefix(name, s.prefix); ok && (unit || !s.unit) && (isID(id) || s.chosen && id != "") {
			c.ID, c.Runtime = id, s.runtime
			return true
		}
	}
	return false
}

// podOf returns the pod that a cgroup names, else pod.
func podOf(name, parent string, kubepods bool, pod string) string {
	slice, ok := strings.CutSuffix(name, ".slice")
	if !ok {
		if uid, ok := strings.CutPrefix(name, "pod"); ok && kubepods && isUID(uid) {
			return uid
		}
		if parent == "libpod_parent" && isID(name) {
			return name
		}
		return pod
	}
	if _, id, ok := strings.Cut(slice, "libpod_pod_"); ok && isID(id) {
		return id
	}
	before, uid, ok := strings.Cut(slice, "-pod")
	if !ok || !strings.HasSuffix(before, "kubepods") && !strings.Contains(before, "kubepods-") {
		return pod
	}
	// systemd takes "-" for the end of a parent's name, so the uid has "_" instead.
	if uid = strings.ReplaceAll(uid, "_", "-"); isUID(uid) {
		return uid
	}
	return pod
}

func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '/')
}

func between(s, before, after string) (string, bool) {
	if len(s) <= len(before)+len(after) || !strings.HasPrefix(s, before) || !strings.HasSuffix(s, after) {
		return "", false
	}
	return s[len(before) : len(s)-len(after)], true
}

// isID reports whether s is 64 hexadecimal digits in lower case.
func isID(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// isUID reports whether s is the uid of a pod: a UUID, or a hash of 32 digits for a pod that the
// kubelet read from a file.
func isUID(s string) bool {
	return (len(s) == 32 || len(s) == 36) && strings.Trim(s, "0123456789abcdef-") == ""
}

// unescape undoes systemd's escapes of characters that a unit's name can't have: "\x2d" is "-".
func unescape(s string) string {
	var b strings.Builder
	for {
		at := strings.Index(s, `\x`)
		if at < 0 || at+4 > len(s) {
			break
		}
		high, low := strings.IndexByte(digits, s[at+2]), strings.IndexByte(digits, s[at+3])
		if high < 0 || low < 0 {
			b.WriteString(s[:at+2])
			s = s[at+2:]
			continue
		}
		b.WriteString(s[:at])
		b.WriteByte(byte(high<<4 | low))
		s = s[at+4:]
	}
	if b.Len() == 0 {
		return s
	}
	b.WriteString(s)
	return b.String()
}

const digits = "0123456789abcdef"

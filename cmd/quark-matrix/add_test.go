package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/distropkg/distropkgtest"
)

// TestAddedKernelsBoot packs a kernel of Debian as RHEL, Fedora and Ubuntu would, and runs a test
// on the rows that these packages become.
func TestAddedKernelsBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("boots guests")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the packages are of amd64")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	initramfs := filepath.Join(root, "initramfs.gz")
	vmlinuz, err := os.ReadFile(filepath.Join(root, "kernel_images/amd64/6.1-cloud"))
	if err == nil {
		_, err = os.Stat(initramfs)
	}
	if err != nil {
		t.Skipf("%v: make initramfs.gz kernel-images makes it", err)
	}

	const rhel, fedora, ubuntu = "4.18.0-553.16.1.el8_10.x86_64", "6.11.4-301.fc41.x86_64", "5.15.0-91-generic"
	config := []byte("CONFIG_BLK_DEV_INITRD=y\nCONFIG_RD_GZIP=y\nCONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_KPROBE_EVENTS=y\nCONFIG_BPF_SYSCALL=y\n" +
		"CONFIG_PERF_EVENTS=y\nCONFIG_PROC_EVENTS=y\n")
	file := func(name string, body []byte) distropkgtest.File { return distropkgtest.File{Name: name, Body: body} }
	from, images := t.TempDir(), t.TempDir()
	distropkgtest.Package{Name: "kernel-core", Version: "4.18.0", Release: "553.16.1.el8_10", Arch: "x86_64", Packing: "gzip", Files: []distropkgtest.File{
		file("/lib/modules/"+rhel+"/config", config), file("/lib/modules/"+rhel+"/vmlinuz", vmlinuz),
	}}.WriteRPM(t, filepath.Join(from, "rhel.rpm"))
	distropkgtest.Package{Name: "kernel-core", Version: "6.11.4", Release: "301.fc41", Arch: "x86_64", Packing: "zstd", Files: []distropkgtest.File{
		file("/usr/lib/modules/"+fedora+"/config", config), file("/usr/lib/modules/"+fedora+"/vmlinuz", vmlinuz),
	}}.WriteRPM(t, filepath.Join(from, "fedora.rpm"))
	distropkgtest.Package{Name: "linux-image-unsigned-" + ubuntu, Version: "1", Release: "1", Arch: "amd64", Files: []distropkgtest.File{
		file("/boot/vmlinuz-"+ubuntu, vmlinuz),
	}}.WriteDeb(t, filepath.Join(from, "ubuntu.deb"))
	distropkgtest.Package{Name: "linux-modules-" + ubuntu, Version: "1", Release: "1", Arch: "amd64", Files: []distropkgtest.File{
		file("/boot/config-"+ubuntu, config),
	}}.WriteDeb(t, filepath.Join(from, "modules.deb"))

	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if status := dispatch(context.Background(), args, &out, &out); status != allGood {
			t.Fatalf("%q: status %d:\n%s", args, status, &out)
		}
		return out.String()
	}
	add := []string{"add", "--images", images}
	for _, name := range []string{"rhel.rpm", "fedora.rpm", "ubuntu.deb", "modules.deb"} {
		add = append(add, filepath.Join(from, name))
	}
	run(add...)
	// One by one, as an image that several rows have runs once.
	for _, name := range []string{rhel, fedora, ubuntu + "-amd64"} {
		out := run("--images", images, "--arch", "amd64", "--initramfs", "amd64="+initramfs, "-o", t.TempDir(), "--fresh",
			"-t", "t_fork_exec_exit", "-b", "b", "-b", "k", "-b", "c", "local/"+name)
		if !strings.Contains(out, "local/"+name+": pass: 3 passed, 0 failed") {
			t.Errorf("%s did not pass:\n%s", name, out)
		}
	}
}

package machine

import "strconv"

// Part is a part of a machine.
type Part struct {
	Args   []string // qemu's arguments
	Kernel []string // words of the kernel's command line
}

// Join returns several parts as one.
func Join(parts ...Part) (all Part) {
	for _, p := range parts {
		all.Args = append(all.Args, p.Args...)
		all.Kernel = append(all.Kernel, p.Kernel...)
	}
	return all
}

// architecture has the properties of machines of a GOARCH.
type architecture struct {
	name             string // qemu's
	debian           string // package of its qemu
	board            string
	console, results string // serial ports, by the kernel's names
}

var architectures = map[string]architecture{
	"amd64": {"x86_64", "qemu-system-x86", "pc", "ttyS0", "ttyS1"},
	// The board has one UART for the guest. The second serial port is a PCI device, whose
	// driver numbers ports from 0.
	"arm64": {"aarch64", "qemu-system-arm", "virt", "ttyAMA0", "ttyS0"},
}

// Board is a board without qemu's default devices. The machine ends when the kernel panics or
// reboots.
func Board(goarch string) Part {
	return Part{
		Args: []string{"-machine", architectures[goarch].board,
			"-nodefaults", "-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"},
		Kernel: []string{"panic=-1"},
	}
}

// CPUs returns the part with n virtual CPUs.
func CPUs(goarch string, accel Accel, n int) Part {
	smp := []string{"-smp", strconv.Itoa(n)}
	if accel == KVM {
		return Part{Args: append([]string{"-accel", "kvm", "-cpu", "max"}, smp...)}
	}
	// One thread for all virtual CPUs: with a thread for each, qemu 7.2 may execute an old
	// translation of code that another CPU has just patched, and the kernel panics at one of
	// its own int3 instructions (one boot in five of 7.3). One thread also needs less CPU time.
	//
	// An emulated CPU does not speculate and needs no mitigations. AppArmor and audit slow
	// everything down by a tenth. Append audit=1 to use audit in a guest.
	p := Part{Args: []string{"-accel", "tcg,thread=single", "-cpu"}, Kernel: []string{"mitigations=off", "apparmor=0", "audit=0"}}
	if goarch == "arm64" {
		// The architected algorithm for pointer authentication is slow to emulate.
		p.Args = append(p.Args, "max,pauth-impdef=on")
	} else {
		// qemu 7.2 computes wrong flags for CMPXCHG16B, which the kernel's allocator uses.
		// An interrupt copies the flags to EFLAGS (DF, NT), after which Linux 6.12
		// panicked. Kernels work without the instruction.
		p.Args = append(p.Args, "qemu64,-cx16")
		// On a busy host an emulated CPU may miss the first ticks. The kernel would then
		// panic, because the timer seems not to work.
		p.Kernel = append(p.Kernel, "no_timer_check")
	}
	p.Args = append(p.Args, smp...)
	return p
}

// Memory returns the part with mib MiB of memory.
func Memory(mib int) Part { return Part{Args: []string{"-m", strconv.Itoa(mib)}} }

// Console returns the part with a serial port that is connected to qemu's standard input and
// output. Control A switches to qemu's monitor.
func Console(goarch string, verbose bool) Part {
	p := Part{Args: []string{"-serial", "mon:stdio"}, Kernel: []string{"console=" + architectures[goarch].console, "sysrq_always_enabled"}}
	if !verbose {
		p.Kernel = append(p.Kernel, "loglevel=5") // warnings and worse
	}
	return p
}

// Input returns the part that makes the guest's command read the console.
func Input(goarch string) Part {
	return Part{Kernel: []string{"quark.stdin=" + architectures[goarch].console}}
}

// Results returns the part with the serial port for the guest's records, which qemu writes to a
// file.
func Results(goarch, path string) Part {
	p := Part{Args: []string{"-serial", "file:" + path}, Kernel: []string{"quark.results=" + architectures[goarch].results}}
	if goarch == "arm64" {
		p.Args = []string{"-chardev", "file,id=results,path=" + path, "-device", "pci-serial,chardev=results"}
	}
	return p
}

// Quick returns the part that skips steps of the boot that no guest needs.
func Quick() Part {
	return Part{Kernel: []string{
		// Closing a source waits for many RCU grace periods.
		"rcupdate.rcu_expedited=1",
		// Self-tests of the kernel's cryptography take a tenth of an emulated boot, and so
		// do the keys for modules. Guests load no modules.
		"cryptomgr.notests=1",
		"initcall_blacklist=load_system_certificate_list,jent_mod_init,crypto_kdf108_init",
	}}
}

// Images returns the part with the files to boot. Their paths may contain commas.
func Images(kernel, initramfs string) Part {
	return Part{Args: []string{"-kernel", kernel, "-initrd", initramfs}}
}

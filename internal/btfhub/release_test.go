package btfhub

import (
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for _, tt := range []struct{ release, want string }{
		// Debian
		{"6.1.0-56-cloud-amd64", "debian cloud 6.1"},
		{"6.1.0-56-amd64", "debian generic 6.1"},
		{"6.12.117+deb13-rt-arm64", "debian rt 6.12"},
		{"6.12.90+deb12.1-cloud-arm64", "debian cloud 6.12"},
		{"6.1.0-0.deb11.50-amd64", "debian generic 6.1"},
		{"6.9.7-amd64", "debian generic 6.9"},
		{"4.19.0-27-cloud-amd64", "debian cloud 4.19"},

		// Ubuntu
		{"5.4.0-42-generic", "ubuntu generic 5.4"},
		{"4.4.0-210-lowlatency", "ubuntu lowlatency 4.4"},
		{"5.15.0-1019-aws", "ubuntu aws 5.15"},
		{"6.8.0-1024-azure-fde", "ubuntu azure-fde 6.8"},
		{"5.15.0-1048-intel-iotg", "ubuntu intel-iotg 5.15"},
		{"6.8.0-31-generic-64k", "ubuntu generic-64k 6.8"},
		{"6.2.0-060200-generic", "unknown kernel"},  // a plain kernel's package
		{"6.1.60-060160-generic", "unknown kernel"}, // another
		{"5.4.18-53-generic", "unknown kernel"},     // Kylin's desktop
		{"5.15.78-0-lts", "unknown kernel"},         // Alpine
		{"6.8.12-4-pve", "unknown kernel"},          // Proxmox

		// RHEL and what is built from its source
		{"3.10.0-1160.119.1.el7.x86_64", "el7 generic 3.10"},
		{"3.10.0-1160.119.1.rt56.1272.el7.x86_64", "el7 rt 3.10"},
		{"3.10.0-1127.el7.x86_64.debug", "el7 debug 3.10"},
		{"3.10.0-1160.el7.centos.plus.x86_64", "el7 plus 3.10"},
		{"4.18.0-193.28.1.el7.aarch64", "el7 generic 4.18"},
		{"4.18.0-80.el8.x86_64", "el8 generic 4.18"},
		{"4.18.0-553.16.1.el8_10.x86_64", "el8 generic 4.18"},
		{"4.18.0-553.16.1.el8_10.x86_64+debug", "el8 debug 4.18"},
		{"4.18.0-553.16.1.rt7.357.el8_10.x86_64", "el8 rt 4.18"},
		{"5.14.0-503.11.1.el9_5.aarch64+64k", "el9 64k 5.14"},
		{"5.14.0-427.13.1.el9_4.x86_64+rt", "el9 rt 5.14"},
		{"5.14.0-427.13.1.el9_4.x86_64+rt-debug", "el9 rt-debug 5.14"},
		{"5.14.0-480.el9.x86_64", "el9 generic 5.14"},
		{"5.14.0-362.24.1.el9_3.0.1.x86_64", "el9 generic 5.14"}, // Rocky Linux
		{"6.12.0-55.9.1.el10_0.x86_64", "el10 generic 6.12"},
		{"6.12.0-55.9.1.el10_0.x86_64_v2", "el10 generic 6.12"},
		{"5.14.0-427.13.1.bz2222.el9_4.x86_64", "el9 bz2222 5.14"},
		{"6.1.106-1.el9.elrepo.x86_64", "el9 elrepo 6.1"},
		{"4.1.12-124.48.6.el7uek.x86_64", "el7 uek 4.1"},
		{"4.14.35-2047.540.4.el7uek.x86_64", "el7 uek 4.14"},
		{"4.14.35-1902.300.11.el7uek.x86_64.debug", "el7 uek-debug 4.14"},
		{"5.4.17-2136.305.5.4.el8uek.x86_64", "el8 uek 5.4"},
		{"5.15.0-209.161.7.2.el9uek.aarch64", "el9 uek 5.15"},
		{"6.12.0-100.28.2.el10uek.x86_64", "el10 uek 6.12"},

		// Fedora
		{"5.6.6-200.fc31.aarch64", "fc31 generic 5.6"},
		{"6.11.4-301.fc41.x86_64", "fc41 generic 6.11"},
		{"6.11.4-301.fc41.x86_64+debug", "fc41 debug 6.11"},
		{"6.12.0-0.rc6.20241113gitf1b785f4c787.53.fc42.x86_64", "fc42 generic 6.12"},
		{"6.11.8-400.asahi.fc40.aarch64+16k", "fc40 asahi-16k 6.11"},

		// Amazon Linux
		{"4.14.35-1.amzn2.x86_64", "amzn2 generic 4.14"},
		{"4.14.336-180.562.amzn1.x86_64", "amzn1 generic 4.14"},
		{"5.10.234-225.921.amzn2.aarch64", "amzn2 generic 5.10"},
		{"6.1.140-154.222.amzn2023.x86_64", "amzn2023 generic 6.1"},

		// SUSE
		{"5.3.18-150300.59.43-default", "suse default 5.3"},
		{"5.3.18-150300.59.43-preempt", "suse preempt 5.3"},
		{"4.12.14-122.91-default", "suse default 4.12"},
		{"5.14.21-150500.55.88-default", "suse default 5.14"},
		{"6.4.0-150600.8.5-azure", "suse azure 6.4"},
		{"6.4.0-150600.10.8-rt", "suse rt 6.4"},
		{"6.11.8-1-default", "suse default 6.11"},
		{"6.12.0-160000.5-default", "suse default 6.12"},

		// openEuler
		{"4.19.90-2112.8.0.0131.oe1.x86_64", "oe1 generic 4.19"},
		{"5.10.0-60.18.0.50.oe2203.x86_64", "oe2203 generic 5.10"},
		{"5.10.0-136.12.0.86.oe2203sp1.aarch64", "oe2203 generic 5.10"},
		{"6.6.0-28.0.0.34.oe2403.x86_64", "oe2403 generic 6.6"},

		// Kylin and bclinux
		{"4.19.90-24.4.v2101.ky10.x86_64", "kylin generic 4.19"},
		{"4.19.90-17.ky10.aarch64", "kylin generic 4.19"},
		{"4.19.90-52.22.v2207.ky10.x86_64", "kylin generic 4.19"},
		{"5.10.0-200.0.0.113.oe2203sp3.bclinux.x86_64", "bclinux generic 5.10"},
		{"4.19.90-2107.6.0.0192.8.oe1.bclinux.x86_64", "bclinux generic 4.19"},
		{"4.19.0-240.23.19.el8_2.bclinux.x86_64", "bclinux generic 4.19"},

		// Plain
		{"5.4.287", "upstream generic 5.4"},
		{"6.12.0", "upstream generic 6.12"},
		{"6.13.0-rc3+", "upstream generic 6.13"},
		{"5.10.0-mine", "unknown kernel"},
		{"6.18.44-fc-v595", "unknown kernel"},
		{"6.6.8-arch1-1", "unknown kernel"},
		{"5.14.0-1.x86_64", "unknown kernel"},
		{"x86_64", "unknown kernel"},
		{"-.el8.x86_64", "el8 generic "}, // no series: related to nothing
		{"", "unknown kernel"},
	} {
		if got := ParseRelease(tt.release).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.release, got, tt.want)
		}
	}
}

// Lookups in an archive of many distributions: what is a guess, and what never is one.
func TestLookupOfOthers(t *testing.T) {
	a := testArchive(t,
		"4.18.0-80.el8.x86_64", "4.18.0-305.3.1.el8.x86_64", "4.18.0-372.9.1.el8.x86_64", "4.18.0-553.rt7.342.el8_10.x86_64",
		"5.14.0-427.13.1.el9_4.x86_64", "5.4.17-2136.305.5.4.el8uek.x86_64", "3.10.0-1160.el7.x86_64",
		"6.11.4-301.fc41.x86_64", "5.10.234-225.921.amzn2.x86_64", "5.14.21-150400.24.11-default", "5.14.21-150500.55.88-default",
		"5.10.0-60.18.0.50.oe2203.x86_64", "4.19.90-2112.8.0.0131.oe1.x86_64", "5.15.0-91-generic",
		"4.19.90-24.4.v2101.ky10.x86_64", "4.19.90-2107.6.0.0192.8.oe1.bclinux.x86_64", "5.4.286", "6.6.8-arch1-1",
	)
	for _, tt := range []struct{ release, want string }{
		{"4.18.0-305.3.1.el8.x86_64", "4.18.0-305.3.1.el8.x86_64 exact"},
		{"4.18.0-305.el8.x86_64", "4.18.0-305.3.1.el8.x86_64"},
		{"4.18.0-348.el8_5.x86_64", "4.18.0-372.9.1.el8.x86_64"},
		{"4.18.0-477.10.1.rt7.274.el8_8.x86_64", "4.18.0-553.rt7.342.el8_10.x86_64"},
		{"4.18.0-553.el8_10.x86_64+debug", ""},
		{"5.14.0-503.11.1.el9_5.x86_64", "5.14.0-427.13.1.el9_4.x86_64"},
		{"5.14.0-427.13.1.bz2222.el9_4.x86_64", ""},
		{"5.14.0-70.el10.x86_64", ""},
		{"5.4.17-2136.338.4.el8uek.x86_64", "5.4.17-2136.305.5.4.el8uek.x86_64"},
		{"5.4.17-2136.338.4.el7uek.x86_64", ""},
		{"3.10.0-957.el7.x86_64", "3.10.0-1160.el7.x86_64"},
		{"6.11.10-300.fc41.x86_64", "6.11.4-301.fc41.x86_64"},
		{"6.11.10-200.fc40.x86_64", ""},
		{"6.12.5-200.fc41.x86_64", ""},
		{"5.10.210-201.852.amzn2.x86_64", "5.10.234-225.921.amzn2.x86_64"},
		{"5.14.21-150500.53.2-default", "5.14.21-150500.55.88-default"},
		{"5.10.0-136.12.0.86.oe2203sp1.x86_64", "5.10.0-60.18.0.50.oe2203.x86_64"},
		{"4.19.90-2003.4.0.0036.oe1.x86_64", "4.19.90-2112.8.0.0131.oe1.x86_64"},
		{"5.15.0-105-generic", "5.15.0-91-generic"},
		{"5.15.0-105-lowlatency", ""},

		{"4.19.90-24.4.v2101.ky10.x86_64", "4.19.90-24.4.v2101.ky10.x86_64 exact"},
		{"4.19.90-25.2.v2101.ky10.x86_64", ""},
		{"4.19.90-2107.6.0.0098.oe1.bclinux.x86_64", ""},
		{"5.4.286", "5.4.286 exact"},
		{"5.4.287", ""},
		{"6.6.9-arch1-1", ""},
	} {
		e, exact, err := a.Lookup(tt.release, "amd64")
		got := e.Release
		if exact {
			got += " exact"
		}
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %q, %v, want %q", tt.release, got, err, tt.want)
		}
	}
}

func FuzzParseRelease(f *testing.F) {
	for _, release := range []string{"6.1.0-56-cloud-amd64", "4.18.0-553.rt7.342.el8_10.x86_64+debug", "5.4.17-1.el8uek.x86_64",
		"4.19.90-2107.6.0.0192.8.oe1.bclinux.x86_64", "5.4.287", "-.el8.x86_64", "1-..x86_64"} {
		f.Add(release)
	}
	f.Fuzz(func(t *testing.T, release string) {
		r := ParseRelease(release)
		if !strings.HasPrefix(release, r.Series) {
			t.Errorf("series %q of %q", r.Series, release)
		}
		if r.related(r) != (r.Distro != "" && r.Series != "" && r.guessable()) {
			t.Errorf("%q is not related to itself", release)
		}
	})
}

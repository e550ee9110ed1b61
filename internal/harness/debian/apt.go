package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Apt is the machine's apt with a private state in a temporary directory.
type Apt struct {
	// Dir is the directory, which Close removes.
	Dir string

	config string // APT_CONFIG file
	arches []string
	from   archives
	say    func(format string, args ...any)
	suites []string // suites whose lists have been fetched
}

// CheckTools returns an error on a machine without apt.
func CheckTools() error {
	for _, tool := range []string{"apt-get", "apt-cache", "apt-config", "dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s not found: kernels of guests are Debian packages; on another system pass your own kernel image to krun.sh", tool)
		}
	}
	return nil
}

// New creates the private state for packages of the architectures. say, which may be nil, is called
// before each slow step with its description.
func New(ctx context.Context, say func(format string, args ...any), arches ...string) (*Apt, error) {
	slices.Sort(arches)
	arches = slices.Compact(arches)
	if err := CheckTools(); err != nil {
		return nil, err
	}
	if say == nil {
		say = func(string, ...any) {}
	}
	from, err := systemArchives(ctx)
	if err != nil {
		return nil, err
	}
	system, err := run(ctx, "", nil, "apt-config", "dump")
	if err != nil {
		return nil, fmt.Errorf("read apt's configuration: %w", err)
	}
	dir, err := os.MkdirTemp("", "quark-apt-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	a := &Apt{Dir: dir, config: filepath.Join(dir, "apt.conf"), arches: arches, from: from, say: say}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "download"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	err = errors.Join(err, os.WriteFile(a.config, []byte(aptConfig(string(system), dir, arches)), 0o644),
		os.WriteFile(filepath.Join(dir, "status"), nil, 0o644))
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("make apt's private state: %w", err)
	}
	return a, nil
}

// Close removes the private state.
func (a *Apt) Close() { os.RemoveAll(a.Dir) }

// aptConfig returns the configuration for the private state. From system, the output of apt-config
// dump, it includes only the settings for downloads (proxies, certificates, credentials), because
// others may have hooks that change the system. Its own settings come last and override the
// system's: unsigned packages are rejected.
func aptConfig(system, dir string, arches []string) string {
	var b strings.Builder
	for _, line := range strings.Split(system, "\n") {
		if strings.HasPrefix(line, "Acquire::") && !strings.HasPrefix(line, "Acquire::IndexTargets") &&
			!strings.HasPrefix(line, "Acquire::Languages") {
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(&b, "APT::Architecture %q;\n", arches[0])
	for _, arch := range arches {
		fmt.Fprintf(&b, "APT::Architectures:: %q;\n", arch)
	}
	for _, kv := range [][2]string{
		{"Dir::State", dir},
		{"Dir::State::lists", filepath.Join(dir, "lists")},
		{"Dir::State::status", filepath.Join(dir, "status")},
		{"Dir::Cache", filepath.Join(dir, "cache")},
		{"Dir::Log", dir},
		{"Dir::Etc::sourcelist", filepath.Join(dir, "sources.list")},
		{"Dir::Etc::sourceparts", "/dev/null"},
		{"Dir::Etc::main", "/dev/null"},
		{"Dir::Etc::parts", "/dev/null"},
		{"Dir::Etc::preferences", "/dev/null"},
		{"Dir::Etc::preferencesparts", "/dev/null"},
		// The user _apt, as which root's apt would download, cannot write to the
		// directory.
		{"APT::Sandbox::User", "root"},
		{"Acquire::Languages", "none"},
		{"Acquire::Retries", "2"},
		{"Acquire::http::Timeout", "20"},
		{"Acquire::https::Timeout", "20"},
		{"Acquire::AllowInsecureRepositories", "false"},
		{"Acquire::AllowWeakRepositories", "false"},
		{"Acquire::AllowDowngradeToInsecureRepositories", "false"},
		{"APT::Get::AllowUnauthenticated", "false"},
		// A failed download of a list is an error: otherwise apt would use an old list.
		{"APT::Update::Error-Mode", "any"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", kv[0], kv[1])
	}
	return b.String()
}

// systemArchives returns the Debian archives of the system's apt.
func systemArchives(ctx context.Context) (archives, error) {
	out, err := run(ctx, "", nil, "apt-get", "indextargets", "--format", targetsFormat)
	if err != nil {
		return archives{}, fmt.Errorf("read apt's sources: %w", err)
	}
	a := parseTargets(string(out))
	if a.main.uri == "" && a.security.uri == "" {
		return a, errors.New("apt's sources name no Debian archive, but kernels of guests are Debian packages")
	}
	return a, nil
}

// Uncovered returns an error if the machine's apt has no archive for any of the suites.
func (a *Apt) Uncovered(suites ...string) error {
	if a.from.sourcesList(suites, a.arches) == "" {
		return fmt.Errorf("apt's sources name no archive that has %v", suites)
	}
	return nil
}

// Update fetches the lists of suites that are not yet fetched, and reports whether there were any.
// It fetches the earlier suites again, because apt drops the packages of suites that its sources no
// longer list.
func (a *Apt) Update(ctx context.Context, suites ...string) (fetched bool, err error) {
	var unfetched []string
	for _, s := range suites {
		if !slices.Contains(slices.Concat(a.suites, unfetched), s) {
			unfetched = append(unfetched, s)
		}
	}
	if len(unfetched) == 0 {
		return false, nil
	}
	if err := a.Uncovered(unfetched...); err != nil {
		return false, err
	}
	all := slices.Concat(a.suites, unfetched)
	list := a.from.sourcesList(all, a.arches)
	if err := os.WriteFile(filepath.Join(a.Dir, "sources.list"), []byte(list), 0o644); err != nil {
		return false, fmt.Errorf("write apt's private sources: %w", err)
	}
	a.say("fetching the package lists of %v", unfetched)
	if _, err := a.run(ctx, "apt-get", "-q", "update"); err != nil {
		return false, fmt.Errorf("update package lists: %w", err)
	}
	a.suites = all
	return true, nil
}

// Names returns the names of the packages in the suites that begin with a prefix.
func (a *Apt) Names(ctx context.Context, prefix string) ([]string, error) {
	names, err := a.run(ctx, "apt-cache", "-q", "pkgnames", prefix)
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return strings.Fields(string(names)), nil
}

// Show returns all versions of packages in the suites, the newest of each first.
func (a *Apt) Show(ctx context.Context, names ...string) ([]Package, error) {
	// apt-cache prints the available packages, but fails if a name has no version in these
	// suites.
	stanzas, err := a.run(ctx, "apt-cache", append([]string{"-q", "show"}, names...)...)
	if err != nil && len(stanzas) == 0 {
		return nil, fmt.Errorf("show packages: %w", err)
	}
	return ParsePackages(bytes.NewReader(stanzas))
}

// Download fetches a package into a new directory and returns the file's path.
func (a *Apt) Download(ctx context.Context, p Package) (deb string, err error) {
	dir, err := os.MkdirTemp(filepath.Join(a.Dir, "download"), "")
	if err == nil {
		_, err = run(ctx, dir, a.env(), "apt-get", "-q", "download", fmt.Sprintf("%s:%s=%s", p.Name, p.Arch, p.Version))
	}
	deb = filepath.Join(dir, fmt.Sprintf("%s_%s_%s.deb", p.Name, strings.ReplaceAll(p.Version, ":", "%3a"), p.Arch))
	if err == nil {
		_, err = os.Stat(deb)
	}
	if err != nil {
		return "", fmt.Errorf("download %s: %w", p, err)
	}
	return deb, nil
}

func (a *Apt) env() []string { return []string{"APT_CONFIG=" + a.config} }

func (a *Apt) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	return run(ctx, "", a.env(), name, args...)
}

// run runs a program and returns its standard output. The error contains the program's own message.
func run(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %s", name, errorMessage(stderr.String(), err))
	}
	return stdout.Bytes(), nil
}

// errorMessage returns the first error line of apt's standard error, else its first line, else
// err's text.
func errorMessage(stderr string, err error) string {
	var first string
	for _, line := range strings.Split(stderr, "\n") {
		if e, ok := strings.CutPrefix(line, "E: "); ok {
			return e
		}
		if first == "" {
			first = strings.TrimSpace(line)
		}
	}
	if first != "" {
		return first
	}
	return err.Error()
}

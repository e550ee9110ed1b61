package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what a file in .github/workflows has.
type workflow struct {
	On          any
	Permissions map[string]string
	Env         map[string]string
	Jobs        map[string]*struct {
		Needs       any
		Permissions map[string]string
		Steps       []step
	}
}

type step struct {
	Name, Uses, Run  string
	WorkingDirectory string `yaml:"working-directory"`
	If               string
	With, Env        map[string]string
}

// workflows reads all of them, by the name of their file.
func workflows(t *testing.T) map[string]*workflow {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	all := make(map[string]*workflow)
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w := new(workflow)
		if err := yaml.Unmarshal(data, w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Base(path)] = w
	}
	return all
}

// makeTargets returns the targets that the Makefile defines.
func makeTargets(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	// -q says by its status that the target is not up to date.
	c := exec.Command("make", "-C", "../..", "-pqrR", "help")
	c.Env = append(os.Environ(), "MAKEFLAGS=", "MAKEOVERRIDES=")
	out, err := c.Output()
	if err != nil && c.ProcessState.ExitCode() != 1 {
		t.Fatalf("make -p: %v", err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][\w.-]*):`).FindAllSubmatch(out, -1) {
		targets = append(targets, string(m[1]))
	}
	return targets
}

// expression is one of a workflow's own, which is not the shell's.
var expression = regexp.MustCompile(`\$\{\{.*?\}\}`)

func TestWorkflowsRunWhatIsThere(t *testing.T) {
	targets := makeTargets(t)
	goRun := regexp.MustCompile(`\bgo (?:run|test|vet) (\./\S+)`)
	commands := 0
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			for i, s := range j.Steps {
				where := fmt.Sprintf("%s: job %s, step %d", name, job, i+1)
				if (s.Run == "") == (s.Uses == "") {
					t.Errorf("%s has neither run nor uses, or both", where)
				}
				if s.Uses != "" && !regexp.MustCompile(`^actions/[\w-]+@v\d+$`).MatchString(s.Uses) {
					t.Errorf("%s uses %s: not an action of GitHub's own in some version", where, s.Uses)
				}
				script := expression.ReplaceAllString(s.Run, "1")
				if out, err := exec.Command("bash", "-n", "-c", script).CombinedOutput(); err != nil {
					t.Errorf("%s: %s", where, out)
				}
				for line := range strings.Lines(script) {
					words := strings.Fields(line)
					if len(words) > 0 && words[0] == "make" {
						commands++
						for _, word := range words[1:] {
							if !strings.Contains(word, "=") && !slices.Contains(targets, word) {
								t.Errorf("%s: make %s: there is no such target", where, word)
							}
						}
					}
					for _, m := range goRun.FindAllStringSubmatch(line, -1) {
						commands++
						dir := strings.TrimSuffix(strings.TrimSuffix(m[1], "..."), "/")
						if _, err := os.Stat(filepath.Join("../..", dir)); err != nil {
							t.Errorf("%s: go %s: %v", where, m[1], err)
						}
					}
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("%d commands in all workflows", commands)
	}
}

// The release is published of artefacts that jobs before it have uploaded, with an attestation.
func TestReleaseIsAttested(t *testing.T) {
	w := workflows(t)["release.yml"]
	publish := w.Jobs["publish"]
	if publish == nil {
		t.Fatal("no job publish")
	}
	for _, needed := range []string{"dist", "package"} {
		needs, _ := publish.Needs.([]any)
		if !slices.Contains(needs, any(needed)) || w.Jobs[needed] == nil {
			t.Errorf("publish does not wait for %s", needed)
		}
	}
	for right, value := range map[string]string{"contents": "write", "id-token": "write", "attestations": "write"} {
		if publish.Permissions[right] != value {
			t.Errorf("publish has not %s: %s", right, value)
		}
	}
	if w.Permissions["contents"] != "read" {
		t.Errorf("other jobs may write: %v", w.Permissions)
	}
	var order []string
	for _, s := range publish.Steps {
		switch {
		case strings.HasPrefix(s.Uses, "actions/download-artifact@"):
			order = append(order, "download")
		case strings.HasPrefix(s.Uses, "actions/attest-build-provenance@"):
			order = append(order, "attest")
			if s.With["subject-path"] != "dist-1/*" {
				t.Errorf("attested are %q", s.With["subject-path"])
			}
		case strings.Contains(s.Run, "diff -r dist-1 dist-2"):
			order = append(order, "compare")
		case strings.Contains(s.Run, "gh release create"):
			order = append(order, "publish")
		}
	}
	if want := []string{"download", "compare", "attest", "publish"}; !slices.Equal(order, want) {
		t.Errorf("publish does %q, not %q", order, want)
	}
	uploaded := false
	for _, s := range w.Jobs["dist"].Steps {
		if strings.HasPrefix(s.Uses, "actions/upload-artifact@") {
			uploaded = s.With["name"] == "dist-${{ matrix.build }}" && strings.HasSuffix(s.With["path"], "/build/dist")
		}
	}
	if !uploaded {
		t.Error("what make dist makes is not uploaded as dist-1 and dist-2")
	}
}

// The last step's script, with a gh that prints what it is told.
func TestReleaseNotes(t *testing.T) {
	steps := workflows(t)["release.yml"].Jobs["publish"].Steps
	script := steps[len(steps)-1].Run
	for _, test := range []struct {
		tag, want string // what gh is told, after release create; empty if it must not be
	}{
		{"v1.2.0", "v1.2.0 --verify-tag --notes-file notes.md dist-1/quark_1.tar.gz"},
		{"v1.2.0-rc.1", "v1.2.0-rc.1 --verify-tag --notes-file notes.md --prerelease dist-1/quark_1.tar.gz"},
		{"v1.3.0", ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"bin/gh":                "#!/bin/sh\nshift 2\necho \"$@\" >told\n",
			"dist-1/quark_1.tar.gz": "archive",
			"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.2.0] - 2026-12-01\n\n- the release\n\n" +
				"## [1.2.0-rc.1] - 2026-11-30\n\n- the candidate\n\n## [1.1.0] - 2026-01-01\n\n- before\n",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("bash", "-e", "-c", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "GITHUB_REF_NAME="+test.tag)
		out, err := c.CombinedOutput()
		told, _ := os.ReadFile(filepath.Join(dir, "told"))
		if got := strings.TrimSpace(string(told)); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: gh was told %q, %v: %s", test.tag, got, err, out)
		}
		notes, _ := os.ReadFile(filepath.Join(dir, "notes.md"))
		want := map[string]string{"v1.2.0": "- the release", "v1.2.0-rc.1": "- the candidate"}[test.tag]
		if got := strings.TrimSpace(string(notes)); got != want {
			t.Errorf("%s: the notes are %q", test.tag, got)
		}
	}
}

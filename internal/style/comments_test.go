package style

import (
	"bufio"
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// files returns the paths below the root, except those that git ignores.
func files(t *testing.T) (paths []string) {
	t.Helper()
	ignored := []string{".git", "build", "amd64", "arm64", "local", "cache", "testdata"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(ignored, d.Name()) {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

const (
	maxWidth = 100
	tabWidth = 8
)

func width(line string) (n int) {
	for _, r := range line {
		if r == '\t' {
			n += tabWidth - n%tabWidth
		} else {
			n++
		}
	}
	return n
}

// TestCommentWidth limits each line with a comment to 100 columns. Lines of one word, such as an
// address, and compiler directives may be wider.
func TestCommentWidth(t *testing.T) {
	for _, path := range files(t) {
		comments := commentLines(path)
		if comments == nil {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("DO NOT EDIT")) && strings.HasSuffix(path, "bpfel.go") {
			continue
		}
		wide := comments(data)
		lines := bufio.NewScanner(bytes.NewReader(data))
		for n := 1; lines.Scan(); n++ {
			if w := width(lines.Text()); w > maxWidth && wide[n] {
				t.Errorf("%s:%d: the comment ends at column %d, %d is the limit", path[len(root)+1:], n, w, maxWidth)
			}
		}
	}
}

// commentLines returns a function that finds the lines with comments in a file of this name, or nil
// if such files have none.
func commentLines(path string) func([]byte) map[int]bool {
	switch name := filepath.Base(path); {
	case strings.HasSuffix(name, ".go"):
		return goComments
	case strings.HasSuffix(name, ".c"), strings.HasSuffix(name, ".h"):
		return matching(`^\s*(//|/\*|\*)\s*\S+\s+\S|\s/[/*] `)
	case name == "Makefile", name == "deps", name == "run", name == ".editorconfig", name == ".clang-format",
		strings.HasSuffix(name, ".py"), strings.HasSuffix(name, ".sh"), strings.HasSuffix(name, ".yml"), strings.HasSuffix(name, ".yaml"):
		return matching(`^\s*#+\s*\S+\s+\S|\s# `)
	}
	return nil
}

func matching(pattern string) func([]byte) map[int]bool {
	comment := regexp.MustCompile(pattern)
	return func(data []byte) map[int]bool {
		found := make(map[int]bool)
		n := 0
		for line := range bytes.Lines(data) {
			n++
			found[n] = comment.Match(line)
		}
		return found
	}
}

func goComments(data []byte) map[int]bool {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it better
	}
	found := make(map[int]bool)
	for _, group := range file.Comments {
		for _, c := range group.List {
			first := set.Position(c.Pos()).Line
			for i, line := range strings.Split(c.Text, "\n") {
				directive := strings.HasPrefix(line, "//go:")
				found[first+i] = !directive && len(strings.Fields(line)) > 2
			}
		}
	}
	return found
}

// hardPhrases make a sentence hard to read. Well-kept Go libraries use 5 to 7 in 10,000 words.
var (
	hardPhrases = regexp.MustCompile(`(?i)\b(that of|those of|whose|of which|tells?|told|telling|what (is|was|has|had|it)|nobody|nothing)\b`)
	plainWord   = regexp.MustCompile(`[A-Za-z']+`)
	notProse    = regexp.MustCompile("(?ms)^```.*?^```|^[|<][^\n]*|^\\.\\w+")
	// commentOrString matches strings too, so that no comment is found in them.
	commentOrString = regexp.MustCompile("(?s)/\\*.*?\\*/|\"(?:\\\\.|[^\"\\\\\n])*\"|`[^`]*`|'(?:\\\\.|[^'\\\\\n])+'|//[^\n]*")
)

// TestPlainWords limits hard phrases to 15 in 10,000 words, for comments and for documents.
func TestPlainWords(t *testing.T) {
	const most = 15
	words, hard := map[string]int{}, map[string]int{}
	for _, path := range files(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kind, text := prose(path, data)
		words[kind] += len(plainWord.FindAll(text, -1))
		hard[kind] += len(hardPhrases.FindAll(text, -1))
	}
	for _, kind := range []string{"comments", "documents"} {
		rate := float64(hard[kind]) * 1e4 / float64(words[kind])
		if t.Logf("%s: %.1f hard phrases in 10,000 of %d words", kind, rate, words[kind]); rate > most || words[kind] < 10_000 {
			t.Errorf("%d is the limit: rewrite such sentences", most)
		}
	}
}

// prose returns the sentences of a document, or the comments of code that is not generated.
func prose(path string, data []byte) (kind string, text []byte) {
	switch filepath.Ext(path) {
	case ".md", ".1", ".3", ".7", ".8":
		return "documents", notProse.ReplaceAll(data, nil)
	case ".go", ".c", ".h":
		if strings.HasSuffix(path, "_test.go") || bytes.Contains(data, []byte("DO NOT EDIT")) {
			break
		}
		for _, match := range commentOrString.FindAll(data, -1) {
			if match[0] == '/' {
				text = append(append(text, match...), '\n')
			}
		}
		return "comments", text
	}
	return "", nil
}

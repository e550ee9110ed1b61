package style

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// hardPhrases make a sentence hard to read. Well-kept Go libraries use 5 to 7 in 10,000 words.
var (
	hardPhrases = regexp.MustCompile(`(?i)\b(that of|those of|whose|of which|tells?|told|telling|what (is|was|has|had|it)|nobody|nothing)\b`)
	plainWord   = regexp.MustCompile(`[A-Za-z']+`)
	codeComment = regexp.MustCompile("(?s)/\\*.*?\\*/|\"(?:\\\\.|[^\"\\\\\n])*\"|`[^`]*`|'(?:\\\\.|[^'\\\\\n])+'|//[^\n]*")
	notProse    = regexp.MustCompile("(?ms)^```.*?^```|^[|<][^\n]*|^\\.\\w+")
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
		kind, texts := "documents", [][]byte{notProse.ReplaceAll(data, nil)}
		switch ext := filepath.Ext(path); {
		case ext == ".md" || regexp.MustCompile(`^\.[1-8]$`).MatchString(ext):
		case (ext == ".go" && !strings.HasSuffix(path, "_test.go") || ext == ".c" || ext == ".h") && !bytes.Contains(data, []byte("DO NOT EDIT")):
			kind, texts = "comments", codeComment.FindAll(data, -1)
		default:
			continue
		}
		for _, text := range texts {
			if kind == "documents" || text[0] == '/' {
				words[kind] += len(plainWord.FindAll(text, -1))
				hard[kind] += len(hardPhrases.FindAll(text, -1))
			}
		}
	}
	for kind, n := range words {
		if rate := float64(hard[kind]) * 1e4 / float64(n); rate > most || n < 10_000 {
			t.Errorf("%s: %.1f hard phrases in 10,000 of %d words, %d is the limit: rewrite such sentences", kind, rate, n, most)
		} else {
			t.Logf("%s: %.1f hard phrases in 10,000 words", kind, rate)
		}
	}
}

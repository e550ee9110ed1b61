// Command kubernetes checks objects of Kubernetes in YAML by the types of its API: an unknown or
// repeated field is an error. It prints the containers of each object's pods as JSON.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	for _, path := range os.Args[1:] {
		pod, err := podOf(path)
		if err == nil {
			err = out.Encode(pod.Containers)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

// podOf returns what the one object in a file says of its pods.
func podOf(path string) (*core.PodSpec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte("\n---")) {
		return nil, fmt.Errorf("there is more than one object")
	}
	var what meta.TypeMeta
	if err := yaml.Unmarshal(text, &what); err != nil {
		return nil, err
	}
	if want := (meta.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}); what != want {
		return nil, fmt.Errorf("the object is %v, not %v", what, want)
	}
	var o apps.DaemonSet
	err = yaml.UnmarshalStrict(text, &o)
	if s, err2 := meta.LabelSelectorAsSelector(o.Spec.Selector); err == nil && (err2 != nil || !s.Matches(labels(o.Spec.Template.Labels))) {
		err = fmt.Errorf("the selector does not match the pods: %v", err2)
	}
	return &o.Spec.Template.Spec, err
}

// labels are those of a pod, for a selector.
type labels map[string]string

func (l labels) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labels) Get(key string) string            { return l[key] }
func (l labels) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }

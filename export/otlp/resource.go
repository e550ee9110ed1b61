package otlp

import (
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
)

// resourceOf returns the resource that describes the host of the events. Environment variables have
// precedence.
func resourceOf(q *quark.Queue) *resource.Resource {
	h := &q.Clock().Host
	all := []attribute.KeyValue{semconv.ServiceName("quark"), semconv.OSTypeLinux, attribute.String("quark.backend", q.Backend())}
	if v := version(); v != "" {
		all = append(all, semconv.ServiceVersion(v))
	}
	for _, a := range []struct {
		name  string
		value string
	}{
		{string(semconv.HostIDKey), h.MachineID}, {string(semconv.HostNameKey), h.Name}, {string(semconv.HostArchKey), h.Arch},
		{"quark.host.boot_id", h.BootID}, {"quark.host.kernel", h.Kernel},
	} {
		if a.value != "" {
			all = append(all, attribute.String(a.name, valid(a.value)))
		}
	}
	own := resource.NewWithAttributes(semconv.SchemaURL, all...)
	merged, err := resource.Merge(own, resource.Environment())
	if err != nil { // the environment's resource has another schema
		return own
	}
	return merged
}

// version returns the version of quark, "" if the program does not contain it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const path = "github.com/quark-linux/quark"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

package otlp

import (
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/schema"
)

// exitFields are the fields that only an EXIT has.
const exitFields = quark.FieldsUsage | 1<<quark.FieldExit

// addProcess adds the known fields of the event's process, and the names of its cached, cut and
// unknown fields.
func (r *recorder) addProcess(ev *quark.Event) {
	p := ev.Process
	rows := quark.Rows()
	for i := range rows {
		if row := &rows[i]; row.OTel != "" && row.Has(p, r.q.Clock()) {
			r.row(row, p)
		}
	}
	if tags := p.Tags(); tags != nil {
		r.list("quark.tags", tags)
	}
	r.userNames(p)
	r.image(p)
	// The pods of podman are not Kubernetes pods.
	if c, ok := p.Container(); ok && c.Pod != "" && c.Runtime != "podman" {
		r.text(semconv.K8SPodUIDKey, c.Pod)
	}
	// The environment is reported only on request, so it is not missing.
	missing := quark.AllFields &^ p.Known &^ (1 << quark.FieldEnviron)
	if !ev.Events.Has(quark.EventExit) {
		missing &^= exitFields
	}
	if p.IsKernelThread() {
		missing &^= quark.SetOf(quark.FieldExe, quark.FieldArgs, quark.FieldExeFile, quark.FieldExecPath)
	}
	r.set("quark.unknown", missing)
	r.set("quark.cached", p.Cached)
	r.set("quark.truncated", p.Truncated)
}

// row adds the value of a row if the row has one.
func (r *recorder) row(row *quark.Row, p *quark.Process) {
	key := attribute.Key(row.OTel)
	switch row.Shape {
	case schema.Uint:
		r.number(key, int64(row.Number(p)))
	case schema.String, schema.Path:
		r.rawText(key, row.Text(p))
	case schema.True:
		r.flag(key, true)
	default:
		if r.made = row.AppendWord(r.made[:0], p, r.q.Clock()); len(r.made) > 0 {
			r.text(key, string(r.made))
		}
	}
}

// image adds the name of the executable and the arguments.
func (r *recorder) image(p *quark.Process) {
	if p.Known.Has(quark.FieldExe) {
		r.text(semconv.ProcessExecutableNameKey, base(p.Image.Exe))
	}
	if !p.Known.Has(quark.FieldArgs) {
		return
	}
	n := 0
	if len(p.Image.Args) > 0 {
		var args []string
		for a := range p.Arguments() {
			if n++; n <= maxArgs {
				args = append(args, valid(string(a)))
			}
		}
		r.list(semconv.ProcessCommandArgsKey, args)
		if !utf8.Valid(p.Image.Args) {
			r.bytes("quark.bytes.process.command_args", p.Image.Args)
		}
	}
	if n > maxArgs {
		r.flag("quark.command_args_cut", true)
	}
	if !p.Truncated.Has(quark.FieldArgs) {
		r.number(semconv.ProcessArgsCountKey, int64(n))
	}
}

// userNames adds the names of users.
func (r *recorder) userNames(p *quark.Process) {
	if r.names == nil {
		return
	}
	if p.Known.Has(quark.FieldUIDs) {
		r.user(p, semconv.ProcessUserNameKey, p.Cred.EUID)
		r.user(p, semconv.ProcessRealUserNameKey, p.Cred.UID)
	}
	if p.Known.Has(quark.FieldSUID) {
		r.user(p, semconv.ProcessSavedUserNameKey, p.Cred.SUID)
	}
}

func (r *recorder) user(p *quark.Process, name attribute.Key, uid uint32) {
	if n := r.names.User(p, uid); n != "" {
		r.text(name, n)
	}
}

package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Values are those that an option takes: one, or with Many several with commas between them.
type Values struct {
	List []string
	Many bool
}

// completion is the first operand that asks for a script.
const completion = "completion"

// printCompletion prints the script for a shell, the only operand.
func printCompletion(f *pflag.FlagSet, s Syntax, operands []string, out io.Writer) error {
	if len(operands) != 1 {
		return errors.New("completion: name one shell: bash, zsh or fish")
	}
	script, err := Completion(operands[0], f, append(s.Words, completion), s.Values)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, script)
	return err
}

// Completion returns the script by which a shell, bash, zsh or fish, completes the options of a
// command, and its first word, which is one of words. values are those of the options that take one
// of a few; an option whose help names its value `file` takes a file.
func Completion(shell string, f *pflag.FlagSet, words []string, values map[string]Values) (string, error) {
	script, ok := map[string]func(name, words string, options []option) string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if !ok {
		return "", fmt.Errorf("completion: no script for the shell %q: choose bash, zsh or fish", shell)
	}
	var options []option
	f.VisitAll(func(flag *pflag.Flag) {
		o := option{Flag: flag, Values: values[flag.Name]}
		o.value, o.help = pflag.UnquoteUsage(flag)
		// A line of a list has room for the first part of the help.
		for _, end := range []string{";", " (", ": a list"} {
			o.help, _, _ = strings.Cut(o.help, end)
		}
		o.takes = flag.NoOptDefVal == ""
		options = append(options, o)
	})
	return script(f.Name(), strings.Join(words, " "), options), nil
}

// option is an option as scripts have it.
type option struct {
	*pflag.Flag
	Values
	takes       bool   // a value follows
	value, help string // the name of the value
}

// names returns the option's names as they are typed.
func (o *option) names() (names []string) {
	if o.Shorthand != "" {
		names = append(names, "-"+o.Shorthand)
	}
	return append(names, "--"+o.Name)
}

func bash(name, words string, options []option) string {
	fn := "_" + strings.ReplaceAll(name, "-", "_")
	var all []string
	var cases strings.Builder
	for _, o := range options {
		all = append(all, o.names()...)
		if !o.takes {
			continue
		}
		action := ":"
		switch {
		case o.value == "file":
			action = `compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur")`
		case o.Many:
			action = fmt.Sprintf(`compopt -o nospace; mapfile -t COMPREPLY < <(compgen -P "$head" -W '%s' -- "${cur##*,}")`, strings.Join(o.List, " "))
		case o.List != nil:
			action = fmt.Sprintf(`mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(o.List, " "))
		}
		fmt.Fprintf(&cases, "\t%s) %s; return ;;\n", strings.Join(o.names(), "|"), action)
	}
	return fmt.Sprintf(`# bash completion for %[1]s
%[2]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} head=
	COMPREPLY=()
	# bash takes --option=value for three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	[[ $cur == *,* ]] && head=${cur%%,*},
	case $prev in
%[3]s	esac
	mapfile -t COMPREPLY < <(compgen -W '%[4]s' -- "$cur")
	[[ $COMP_CWORD != 1 ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W '%[5]s' -- "$cur")
}
complete -F %[2]s %[1]s
`, name, fn, cases.String(), strings.Join(all, " "), words)
}

func zsh(name, words string, options []option) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n\n_arguments -s -S", name)
	quote := strings.NewReplacer(`'`, `'\''`, `\`, `\\`, `[`, `\[`, `]`, `\]`, `:`, `\:`)
	for _, o := range options {
		spec := "[" + quote.Replace(o.help) + "]"
		names := o.names()
		if o.takes {
			what := quote.Replace(o.value)
			switch list := strings.Join(o.List, " "); {
			case o.value == "file":
				spec += ":file:_files"
			case o.Many:
				spec += fmt.Sprintf(":%s:_values -s , %[1]s %s", what, list)
			case list != "":
				spec += fmt.Sprintf(":%s:(%s)", what, list)
			default:
				spec += ":" + what + ": "
			}
		}
		for i, n := range names {
			// A value follows -o directly or as the next word, --option with = or so.
			if o.takes {
				n += map[bool]string{true: "=", false: "+"}[strings.HasPrefix(n, "--")]
			}
			names[i] = n
		}
		once := "(" + strings.Join(o.names(), " ") + ")"
		if o.Value.Type() == "count" {
			once = "*"
		}
		for _, n := range names {
			fmt.Fprintf(&b, " \\\n\t'%s'%s'%s'", once, n, spec)
		}
	}
	return fmt.Sprintf("%s \\\n\t'1::command:(%s)'\n", b.String(), words)
}

func fish(name, words string, options []option) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s\ncomplete -c %[1]s -f\ncomplete -c %[1]s -n __fish_is_first_token -a '%s'\n", name, words)
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, o := range options {
		fmt.Fprintf(&b, "complete -c %s", name)
		if o.Shorthand != "" {
			fmt.Fprintf(&b, " -s %s", o.Shorthand)
		}
		fmt.Fprintf(&b, " -l %s -d '%s'", o.Name, quote.Replace(o.help))
		if o.takes {
			switch list := strings.Join(o.List, " "); {
			case o.value == "file":
				b.WriteString(" -r -F")
			case o.Many:
				fmt.Fprintf(&b, ` -x -a "(__fish_complete_list , 'string split \" \" \"%s\"')"`, list)
			case list != "":
				fmt.Fprintf(&b, " -x -a '%s'", list)
			default:
				b.WriteString(" -x")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

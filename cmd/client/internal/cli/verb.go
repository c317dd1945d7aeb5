package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"hindsight/client"
	"hindsight/cmd/internal/command"
)

type verb struct {
	// use is the name, the arguments in capitals, all required, and the most important flags.
	use, short, long, example string
	// optional: the caller may leave out the one argument.
	optional bool
	// local: the command can start a server.
	local bool
	flags func(*flagSet)
	// before checks the flags. No connection exists yet.
	before func(*call) error
	// run calls the server. Nil for a command that calls none.
	run func(*call) error
}

type call struct {
	cmd    *cobra.Command
	args   []string
	client *client.Client // nil in verb.before
}

func (c *call) ctx() context.Context { return c.cmd.Context() }

func (c *call) model() *client.Model { return c.client.Model(c.args[0]) }

func (c *call) given(flag string) bool { return c.cmd.Flags().Changed(flag) }

type flagSet struct {
	*pflag.FlagSet
	cmd *cobra.Command
}

func (f *flagSet) fixed(flag string, list []string) {
	must(f.cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)))
}

// must panics at a completion of a flag that does not exist.
func must(err error) {
	if err != nil {
		panic("cli: " + err.Error())
	}
}

func (f *flagSet) model(model *string) {
	f.StringVar(model, "model", "", "id of the model")
}

func (e *env) group(use, short, long string, verbs ...verb) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, RunE: command.Group}
	e.callsNoServer(cmd)
	for _, v := range verbs {
		cmd.AddCommand(e.command(v))
	}
	return cmd
}

// callsNoServer leaves the flags of a connection out of the help of a command.
func (e *env) callsNoServer(cmd *cobra.Command) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	e.ServerFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.Flags().AddFlagSet(flags)
}

func (e *env) command(v verb) *cobra.Command {
	cmd := &cobra.Command{Use: v.use, Short: v.short, Long: v.long, Example: v.example, Args: command.Exactly(arguments(v.use)...)}
	if v.optional {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) <= 1:
				return nil
			case cmd.Flags().Lookup("features") != nil:
				return command.Usagef("unexpected argument %q, want features as --features 0.5,21", args[1])
			}
			return command.Usagef("unexpected argument %q", args[1])
		}
	}
	flags := &flagSet{cmd.Flags(), cmd}
	if v.flags != nil {
		v.flags(flags)
	}
	if v.local {
		e.local.flags(flags)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := &call{cmd: cmd, args: args}
		if err := e.local.check(c); err != nil {
			return err
		}
		if v.before != nil {
			if err := v.before(c); err != nil {
				return err
			}
		}
		if v.run == nil {
			return nil
		}
		return e.withClient(c.ctx(), func(server *client.Client) error {
			c.client = server
			return v.run(c)
		})
	}
	return cmd
}

func arguments(use string) []string {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			break
		}
		names = append(names, word)
	}
	return names
}

func (e *env) withClient(ctx context.Context, do func(*client.Client) error) error {
	if e.local.on {
		return e.local.serve(ctx, e, do)
	}
	// The client sends no call again unless a command asks for it.
	c, err := e.Dial(client.WithTimeout(e.Timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// encode returns the compact JSON of a message, in protojson's standard form: 64-bit integers are texts. A field
// without presence is written even if it is zero.
func encode(m proto.Message) (json.RawMessage, error) {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var out bytes.Buffer
	err = json.Compact(&out, raw) // Protojson adds spaces at random.
	return out.Bytes(), err
}

// emit writes the answer of a command; see command.Program.Emit.
func (e *env) emit(doc any, human func(*command.Page)) error {
	if m, ok := doc.(proto.Message); ok {
		raw, err := encode(m)
		if err != nil {
			return err
		}
		doc = raw
	}
	return e.Emit(doc, human)
}

// show returns a function that writes the answer of a call, as human writes it for people.
func show[M proto.Message](e *env, human func(*command.Page, M)) func(M, error) error {
	return func(m M, err error) error {
		if err != nil {
			return err
		}
		return e.emit(m, func(w *command.Page) { human(w, m) })
	}
}

// showList returns a function that writes a list of which the server answered the entries:
// all of them as one message, each as a row below the header.
func showList[M proto.Message](e *env, all func([]M) proto.Message, header []string, row func(M) []any) func([]M, error) error {
	return func(list []M, err error) error {
		if err != nil {
			return err
		}
		raw, err := encode(all(list))
		if err != nil {
			return err
		}
		rows := make([][]any, len(list))
		for i, m := range list {
			rows[i] = row(m)
		}
		return e.EmitRows(raw, header, rows)
	}
}

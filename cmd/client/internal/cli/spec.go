package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/nearest"
)

const orderUsage = "id, sequence, create_time, recent_loss, recent_skill, regret or observation_rate; with \" desc\" the largest first"

// learners are the names of the learners, as fields of a spec.
func learners() []string {
	fields := (&hindsightv1.ModelSpec{}).ProtoReflect().Descriptor().Oneofs().ByName("learner").Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	slices.Sort(names)
	return names
}

// specFlag adds the flag --spec. It completes to a spec of each learner.
func (e *env) specFlag(cmd *cobra.Command, spec *string) {
	cmd.Flags().StringVar(spec, "spec", "", specUsage+" (required)")
	specs := make([]string, 0, len(learners()))
	for _, name := range learners() {
		specs = append(specs, `{"dimension": 2, "`+name+`": {}}`)
	}
	fixed(cmd, "spec", specs)
}

// learnerFlag completes the flag --learner.
func (e *env) learnerFlag(cmd *cobra.Command) { fixed(cmd, "learner", learners()) }

// orderFlag completes the flag --order-by.
func (e *env) orderFlag(cmd *cobra.Command) {
	var orders []string
	for _, name := range []string{"id", "sequence", "create_time", "recent_loss", "recent_skill", "regret", "observation_rate"} {
		orders = append(orders, name, name+" desc")
	}
	fixed(cmd, "order-by", orders)
}

// fixed completes a flag by a list.
func fixed(cmd *cobra.Command, flag string, list []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("cli: " + err.Error()) // The flag was just added.
	}
}

// specMistake describes a mistake in the JSON of a spec. To an unknown field it adds
// the one that was meant, and to learner, which is no field, the learners.
func specMistake(err error) string {
	text := oneLine(err)
	unknown := regexp.MustCompile(`unknown field "([^"]*)"`).FindStringSubmatch(text)
	if unknown == nil {
		return text
	}
	if unknown[1] == "learner" {
		return fmt.Sprintf(`%s; a learner is a field with its own name, as in {"dimension": 2, "auto": {}}: %s`, text, strings.Join(learners(), ", "))
	}
	names := make(map[protoreflect.FullName][]string)
	fields((&hindsightv1.ModelSpec{}).ProtoReflect().Descriptor(), names)
	var all []string
	for _, of := range names {
		all = append(all, of...)
	}
	slices.Sort(all)
	return text + nearest.Meant(unknown[1], all)
}

// fields collects the names of the fields of a message and of all below it.
func fields(md protoreflect.MessageDescriptor, names map[protoreflect.FullName][]string) {
	if _, known := names[md.FullName()]; known {
		return
	}
	names[md.FullName()] = nil
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		names[md.FullName()] = append(names[md.FullName()], string(fd.Name()))
		if fd.Message() != nil {
			fields(fd.Message(), names)
		}
	}
}

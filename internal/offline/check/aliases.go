package check

import (
	"context"
	"fmt"
	"strings"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// aliases decodes every alias, and looks for what it names among the models. With repair
// an alias that the server does not serve is removed. One of a model that no longer exists
// is kept, so that calls by it say what it named. Models are the times when they were
// created, 0 of one whose entry cannot be read.
func (c *checker) aliases(ctx context.Context, disk storage.Aliases, models map[string]int64) error {
	var unserved []int // The findings of aliases to remove.
	var names []string
	err := disk.EachAlias(ctx, func(name string, value []byte) error {
		c.checked.Aliases++
		a, err := record.DecodeAlias(value)
		f := Finding{Place: fmt.Sprintf("the alias %q", name), Meaning: "the alias is not served; set it again"}
		a.Bind(func(id string) int64 { return models[id] })
		_, taken := models[name]
		created, there := models[a.Model.ID]
		switch {
		case err != nil:
			f.Problem = err.Error()
		case taken:
			f.Problem = "a model has the id"
		case !there || created != 0 && created != a.Model.Created:
			f.Problem, f.Meaning = fmt.Sprintf("it names %q, which no longer exists", a.Model.ID), "calls by it are MODEL_NOT_FOUND; set it to another model or delete it"
			c.found(f)
			return nil
		default:
			return nil
		}
		unserved, names = append(unserved, len(c.findings)), append(names, strings.Clone(name))
		c.found(f)
		return nil
	})
	if err != nil {
		c.found(Finding{Place: "the aliases", Problem: err.Error(), Meaning: "the server does not start", Refused: true})
		return nil //nolint:nilerr // It is a finding.
	}
	if !c.repair {
		return nil
	}
	for i, name := range names {
		if err := disk.RemoveAlias(ctx, name); err != nil {
			return fmt.Errorf("remove the alias %q: %w", name, err)
		}
		c.findings[unserved[i]].Repaired = "removed"
	}
	return nil
}

package check

import (
	"context"
	"fmt"
	"strings"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/storage"
)

// aliases checks that every alias names an existing model. Repair removes an alias that the
// server does not serve. An alias of a removed model stays, so that errors can name the
// model. Models has the creation times, 0 for a model with a damaged entry.
func (c *checker) aliases(ctx context.Context, disk storage.Aliases, models map[string]int64) error {
	var remove []string
	err := disk.EachAlias(ctx, func(name string, value []byte) error {
		c.checked.Aliases++
		a, err := record.DecodeAlias(value)
		f := Finding{Place: fmt.Sprintf("the alias %q", name), Meaning: "the alias is not served; set it again"}
		_, taken := models[name]
		created, exists := models[a.Model.ID]
		switch {
		case err != nil:
			f.Problem = err.Error()
		case taken:
			f.Problem = "a model has the id"
		case !exists || created != 0 && created != a.Model.Created:
			f.Problem, f.Meaning = fmt.Sprintf("it names %q, which no longer exists", a.Model.ID), "calls by it are MODEL_NOT_FOUND; set it to another model or delete it"
			c.add(f)
			return nil
		default:
			return nil
		}
		remove = append(remove, strings.Clone(name))
		if c.add(f); c.Repair {
			c.findings[len(c.findings)-1].Repaired = "removed"
		}
		return nil
	})
	if err != nil {
		c.add(Finding{Place: "the aliases", Problem: err.Error(), Meaning: "the server does not start", Rejected: true})
		return nil //nolint:nilerr // The error is a finding.
	}
	if !c.Repair {
		return nil
	}
	for _, name := range remove {
		if err := disk.RemoveAlias(ctx, name); err != nil {
			return fmt.Errorf("remove the alias %q: %w", name, err)
		}
	}
	return nil
}

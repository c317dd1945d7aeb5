package placement

import "context"

// Founded groups have no models yet, so that spreadSteps of them change at once.
const spreadSteps = 8

// Fleet is the servers of a cluster with their groups.
type Fleet interface {
	// Look returns the groups, and the servers that do not leave.
	Look(ctx context.Context, leaving []string) (groups []Group, servers []string, err error)
	// Make makes steps of distinct groups concurrently.
	Make(ctx context.Context, steps []Step) error
}

// Rebalance makes the first step of a plan. It returns the step, zero if nothing is left to do, and how many steps
// follow.
func Rebalance(ctx context.Context, f Fleet, leaving []string) (step Step, left int, err error) {
	groups, servers, err := f.Look(ctx, leaving)
	if err != nil {
		return step, 0, err
	}
	steps := Plan(groups, servers)
	if len(steps) == 0 {
		return step, 0, nil
	}
	return steps[0], len(steps) - 1, f.Make(ctx, steps[:1])
}

// Spread makes the steps of plans until no step is left, at once the first steps of several groups.
func Spread(ctx context.Context, f Fleet) error {
	for {
		groups, servers, err := f.Look(ctx, nil)
		if err != nil {
			return err
		}
		steps := Plan(groups, servers)
		if len(steps) == 0 {
			return nil
		}
		var first []Step
		begun := map[int]bool{}
		for _, s := range steps {
			if !begun[s.Group] && len(first) < spreadSteps {
				begun[s.Group] = true
				first = append(first, s)
			}
		}
		if err := f.Make(ctx, first); err != nil {
			return err
		}
	}
}

package backup

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group is a group of a cluster of several groups. The zero Group is a server without a cluster, or the one group of a
// cluster.
type Group struct {
	// Number is from 1 to Of, the number of groups.
	Number uint32 `json:"number"`
	Of     int    `json:"of"`
}

const groupPrefix = "group-"

// Wrap adds the group to an error.
func (g Group) Wrap(err error) error {
	if g == (Group{}) || err == nil {
		return err
	}
	return fmt.Errorf("group %d: %w", g.Number, err)
}

// Place returns the place of a group's backups in the place of the cluster. No two groups share a place.
func (g Group) Place(place string) string {
	if g == (Group{}) {
		return place
	}
	name := groupPrefix + strconv.FormatUint(uint64(g.Number), 10)
	u, err := url.Parse(place)
	switch {
	case !strings.Contains(place, "://") || err != nil:
		return filepath.Join(place, name)
	case u.Scheme == "file":
		u.Path = path.Join(u.Path, name)
	default:
		query := u.Query()
		query.Set("prefix", query.Get("prefix")+name+"/")
		u.RawQuery = query.Encode()
	}
	return u.String()
}

// Groups returns the numbers of the groups that have a place in this place.
func (p *Place) Groups(ctx context.Context) (out []uint32, err error) {
	prefixes, err := p.bucket.Prefixes(ctx, groupPrefix)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	for _, prefix := range prefixes {
		name := strings.TrimSuffix(strings.TrimPrefix(prefix, groupPrefix), "/")
		if n, err := strconv.ParseUint(name, 10, 32); err == nil && n > 0 {
			out = append(out, uint32(n))
		}
	}
	slices.Sort(out)
	return out, nil
}

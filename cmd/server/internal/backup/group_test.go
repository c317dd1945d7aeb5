package backup_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/cmd/server/internal/backup"
)

func TestPlaceOfAGroup(t *testing.T) {
	two := backup.Group{Number: 2, Of: 4}
	for place, want := range map[string]string{
		"place":                        filepath.Join("place", "group-2"),
		"file:///var/place":            "file:///var/place/group-2",
		"s3://b":                       "s3://b?prefix=group-2%2F",
		"s3://b?prefix=p/&region=here": "s3://b?prefix=p%2Fgroup-2%2F&region=here",
	} {
		assert.Equal(t, want, two.Place(place), place)
		assert.Equal(t, place, (backup.Group{}).Place(place))
	}
}

func TestGroupsOfAPlace(t *testing.T) {
	to := t.TempDir()
	write(t, to, map[string]string{
		"backups/20260301T090000.000Z.json": "", "group-2/backups/x": "", "group-11/backups/x": "", "group-0/x": "", "group-x/x": "", "group-3": "",
	})
	got, err := place(t, to).Groups(t.Context())
	assert.True(t, err == nil && slices.Equal(got, []uint32{2, 11}), "%v, %v", got, err)
}

// Until selects the newest backup of each group that is no newer than the time.
func TestUntil(t *testing.T) {
	from, p := t.TempDir(), place(t, t.TempDir())
	write(t, from, map[string]string{"log/1.sst": "x"})
	for _, minute := range []int{1, 3} {
		m := at(minute)
		m.Group = backup.Group{Number: 1, Of: 2}
		must(p.Take(t.Context(), "store", from, m, nil))(t)
	}
	for name, want := range map[string]string{
		"20260301T090100.000Z": "20260301T090100.000Z", "20260301T090259.999Z": "20260301T090100.000Z", "20260301T090300.000Z": "20260301T090300.000Z",
		"20270301T090000.000Z": "20260301T090300.000Z",
	} {
		m, err := p.Until(t.Context(), name)
		assert.True(t, err == nil && m.Name == want && m.Group == (backup.Group{Number: 1, Of: 2}), "%s: %v, %v", name, m, err)
	}
	for _, name := range []string{"20260301T090059.999Z", "", "x"} {
		_, err := p.Until(t.Context(), name)
		assert.ErrorIs(t, err, backup.ErrNoBackup, name)
	}
}

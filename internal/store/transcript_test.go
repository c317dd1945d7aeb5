package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// The calls of testdata/transcripts leave what stands below them. To write the files anew, run go test -run
// TestTranscripts -rewrite. A row a@3 has the id a and the time 3. A call after "at N" has the position N.
//
//	create M, import M ID-ROW… pending ROW…, append M N ID-ROW…, ids M ID-ROW…, pending M ROW…, remove M ID…
//	snapshot M N, undo M (all records), delete M, expire TIME, forget TIME KEEP, sync (the pending predictions)
//	start opens the directory again, cut opens what a power cut leaves
//	show, files DIR, file NAME, expiries (the ids in the index of pending predictions)
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		t.Helper()
		x := &transcript{fs: vfs.NewCrashableMem()}
		x.s = open(t, x.fs)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var out strings.Builder
			for call := range strings.Lines(d.Input) {
				answer, err := x.call(t, strings.Fields(call))
				assert.NoError(t, err, call)
				out.WriteString(answer)
			}
			return out.String()
		})
		closed(t, x.s)
	})
}

type transcript struct {
	fs *vfs.MemFS
	s  *store.Store
}

func (x *transcript) call(t *testing.T, words []string) (string, error) {
	t.Helper()
	ctx := t.Context()
	if words[0] == "at" {
		ctx, words = storage.At(ctx, at(number(t, words[1]))), words[2:]
	}
	name, rows := strings.Join(words[1:min(2, len(words))], ""), words[min(2, len(words)):]
	model := func() storage.Model { return find(t, x.s, name) }
	switch words[0] {
	case "create":
		_, err := x.s.Create(ctx, name, nil)
		return "", err
	case "import":
		ids, pending, _ := strings.Cut(strings.Join(rows, " "), "pending")
		_, err := x.s.Import(ctx, name, nil, storage.Import{IDs: rowsOf(t, strings.Fields(ids), remembered), Pending: rowsOf(t, strings.Fields(pending), waits)})
		return "", err
	case "append":
		return "", model().Append(ctx, commit(number(t, rows[0]), rowsOf(t, rows[1:], remembered)...))
	case "ids":
		return "", model().PutIDs(ctx, rowsOf(t, rows, remembered))
	case "pending":
		return "", model().PutPending(rowsOf(t, rows, waits))
	case "remove":
		return "", model().RemovePending(rows)
	case "snapshot":
		return "", model().WriteSnapshot(number(t, rows[0]), nil)
	case "undo":
		return "", model().Rewind(ctx, storage.Rewind{Undone: func([]byte) bool { return true }})
	case "delete":
		return "", model().Delete(ctx)
	case "expire":
		return "", x.s.Expire(ctx, time.Unix(int64(number(t, name)), 0), func(storage.Model) {})
	case "forget":
		return "", x.s.Forget(ctx, time.Unix(int64(number(t, name)), 0), int(number(t, rows[0])))
	case "sync":
		return "", x.s.SyncPending()
	case "start", "cut":
		left := x.fs.CrashClone(vfs.CrashCloneCfg{})
		if closed(t, x.s); words[0] == "cut" {
			x.fs = left
		}
		x.s = open(t, x.fs)
	case "show":
		return x.show(t), nil
	case "file":
		write(t, x.fs, name, "")
	case "files":
		names, err := x.fs.List(name)
		return fmt.Sprintln(len(names), "files"), err
	case "expiries":
		return x.expiries(t), nil
	default:
		t.Fatalf("unknown call %q", words)
	}
	return "", nil
}

// show describes all models. The store counts the rows that it has.
func (x *transcript) show(t *testing.T) (out string) {
	t.Helper()
	ids, pending := 0, int64(0)
	assert.NoError(t, x.s.Models(t.Context(), func(e storage.RegistryEntry) error {
		out += fmt.Sprintf("%s: number %d, %d records, snapshots %d, ids", e.Name, e.Model.Number(), len(replayed(t, e.Model)), must(e.Model.Snapshots())(t))
		assert.NoError(t, e.Model.EachID(t.Context(), func(r storage.ID) error {
			ids++
			out += fmt.Sprintf(" %s@%d", r.ID, r.At.Unix())
			return nil
		}))
		out += ", pending"
		waiting := e.Model.CountPending()
		pending += waiting
		assert.NoError(t, e.Model.EachPending(t.Context(), func(p storage.Prediction) error {
			waiting--
			out += fmt.Sprintf(" %s@%d", p.ID, p.Expiry.Unix())
			return nil
		}))
		assert.Zero(t, waiting)
		out += "\n"
		return nil
	}))
	assert.True(t, ids == x.s.Metrics().RememberedIDs && pending == x.s.CountPending(), "%d ids, %d pending", ids, pending)
	return out + fmt.Sprintf("position %d, %d ids, %d pending\n", x.s.Position().Index, ids, pending)
}

func (x *transcript) expiries(t *testing.T) string {
	t.Helper()
	closed(t, x.s)
	var out []string
	tamperIn(t, x.fs, "data/pending", func(db *pebble.DB) error {
		it := must(db.NewIter(&pebble.IterOptions{LowerBound: []byte{'e'}, UpperBound: []byte{'f'}}))(t)
		for ok := it.First(); ok; ok = it.Next() {
			out = append(out, string(it.Key()[17:]))
		}
		return it.Close()
	})
	x.s = open(t, x.fs)
	return fmt.Sprintln(out)
}

func number(t *testing.T, word string) uint64 {
	t.Helper()
	return must(strconv.ParseUint(word, 10, 64))(t)
}

func remembered(id string, at time.Time) storage.ID { return storage.ID{ID: id, At: at} }

func waits(id string, expiry time.Time) storage.Prediction {
	return storage.Prediction{ID: id, Expiry: expiry}
}

func rowsOf[R any](t *testing.T, words []string, row func(id string, at time.Time) R) (rows []R) {
	t.Helper()
	for _, w := range words {
		id, seconds, _ := strings.Cut(w, "@")
		rows = append(rows, row(id, time.Unix(int64(number(t, seconds)), 0)))
	}
	return rows
}

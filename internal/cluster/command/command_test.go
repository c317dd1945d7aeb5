package command_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/cluster/command"
	"hindsight/internal/engine/storage"
)

// all has a command of each kind, and of each form of it.
func all() []command.Command {
	at := time.Unix(1_767_323_045, 6_007)
	ids := []storage.ID{{ID: "a", At: at, Value: []byte("value of a")}, {ID: "", At: time.Time{}.Local(), Value: []byte{}}}
	waiting := []storage.Prediction{{ID: "p", Value: []byte("value of p"), Expiry: at}, {ID: "q", Value: []byte{}, Expiry: time.Unix(-1, 999_999_999)}}
	record := storage.Record{First: 3, Last: math.MaxUint64, Data: []byte("data")}
	return []command.Command{
		{Kind: command.Create, Name: "m", Value: []byte("value")},
		{Kind: command.Import, Name: "m", Value: []byte("value"), Sequence: 300, Snapshot: []byte("state"), IDs: ids, Pending: waiting},
		{Kind: command.SetValue, Model: 1, Value: []byte{}, Also: []storage.Alias{{Name: "x", Value: []byte("to m")}, {Name: "y", Value: []byte{}}}},
		{Kind: command.SetValue, Model: 1 << 40, Value: []byte("value")},
		{Kind: command.Delete, Model: 2},
		{Kind: command.PutAlias, Name: "x", Value: []byte("to m")},
		{Kind: command.RemoveAlias, Name: "x"},
		{Kind: command.Append, Model: 3, Record: record, IDs: ids},
		{Kind: command.Append, Model: 3, Record: record, Answered: []string{"p", ""}},
		{Kind: command.Append, Model: 3, Record: storage.Record{Data: []byte{}}},
		{Kind: command.Rewind, Model: 4, Sequence: 5},
		{Kind: command.Rewind, Model: 4, Sequence: 5, Forget: true, Value: []byte{}},
		{Kind: command.Rewind, Model: 4, Sequence: 5, Last: &record, Value: []byte("value")},
		{Kind: command.Rewind, Model: 4, Sequence: 5, Last: &record, Snapshot: []byte("state"), IDs: ids},
		{Kind: command.PutIDs, Model: 5, IDs: ids},
		{Kind: command.PutPending, Model: 6, Pending: waiting},
		{Kind: command.Expire, Expired: at, Forgotten: time.Unix(-1, 0), Keep: 300},
		{Kind: command.Digest, Model: 7, Sequence: 4096, From: "a", To: "b", Forgotten: time.Unix(9, 1)},
		{Kind: command.Snapshot, Model: 8, Sequence: 300, Snapshot: []byte("state")},
		{Kind: command.Raise, Sequence: 300, Name: "v1.2.0"},
		{Kind: command.Part, Transfer: 300, Offset: 1 << 40, Data: []byte("data")},
		{Kind: command.Join, Model: 3, Transfer: 300, Size: 1 << 40, Joined: command.Append, Answered: []string{"p"}},
		{Kind: command.Join, Transfer: 301},
	}
}

func header() command.Header {
	return command.Header{Format: storage.Format, Group: 300, Proposer: [16]byte{0: 1, 15: 16}, Serial: 1 << 50}
}

func encode(h command.Header, commands []command.Command) []byte {
	data := command.NewLogEntry(h, 0)
	for n := range commands {
		data = commands[n].Append(data)
	}
	return data
}

func decode(data []byte) (h command.Header, out []command.Command, err error) {
	e, err := command.Decode(data)
	if err != nil {
		return h, nil, err
	}
	for {
		raw, ok, err := e.Next()
		if !ok {
			return e.Header, out, err
		}
		var c command.Command
		if err := c.Decode(raw); err != nil {
			return e.Header, out, err
		}
		out = append(out, c)
	}
}

func TestRoundTrip(t *testing.T) {
	want := all()
	h, got, err := decode(encode(header(), want))
	require.True(t, err == nil && h == header(), "header %+v, %v", h, err)
	require.Equal(t, len(want), len(got))
	for n := range want {
		assert.Equal(t, want[n], got[n])
	}
	_, none, err := decode(encode(command.Header{Format: storage.Format}, nil))
	assert.True(t, err == nil && len(none) == 0, "an entry without commands has %d, %v", len(none), err)
}

// A command that is decoded again keeps nothing of the one before.
func TestDecodeAgain(t *testing.T) {
	commands := all()
	e, err := command.Decode(encode(header(), append(commands, commands...)))
	require.NoError(t, err)
	var c command.Command
	for n := 0; ; n++ {
		raw, ok, err := e.Next()
		require.NoError(t, err)
		if !ok {
			return
		}
		require.NoError(t, c.Decode(raw))
		got, want := fmt.Sprintf("%+v", c), fmt.Sprintf("%+v", commands[n%len(commands)])
		assert.True(t, c.Last != nil || got == want, "command %d is %s\nwant %s", n, got, want)
	}
}

var update = flag.Bool("update", false, "write the golden file anew")

const golden = "testdata/format6.hex"

// The bytes of format 6 stay: the logs of other servers have them.
func TestGolden(t *testing.T) {
	var lines []string
	for _, c := range all() {
		lines = append(lines, hex.EncodeToString(encode(header(), []command.Command{c})))
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, want)
}

// No cut and no flipped bit makes a decoder fail otherwise than with an error.
func TestDamage(t *testing.T) {
	data := encode(header(), all())
	for n := range data {
		_, got, err := decode(data[:n])
		assert.True(t, (err == nil || errors.Is(err, command.ErrMalformed)) && (err != nil || len(got) != len(all())), "cut at %d: %v", n, err)
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[n] ^= 1 << bit
			_, _, err := decode(bad)
			assert.True(t, err == nil || errors.Is(err, command.ErrMalformed) || errors.Is(err, storage.ErrNewer) || errors.Is(err, command.ErrOlder), "bit %d of byte %d: %v", bit, n, err)
		}
	}
	for want, data := range map[error][]byte{
		command.ErrMalformed: {0},
		storage.ErrNewer:     encode(header(), []command.Command{{Kind: 99}}),
	} {
		_, _, err := decode(data)
		assert.ErrorIs(t, err, want, "want %v", want)
	}
	for format, want := range map[uint32]error{storage.Format + 1: storage.ErrNewer, storage.OldestFormat - 1: command.ErrOlder} {
		data[0] = byte(format)
		_, _, err := decode(data)
		assert.ErrorIs(t, err, want, "format %d, want %v", format, want)
	}
}

// Parts, joins and changes of pending predictions do not travel in parts.
func TestJoined(t *testing.T) {
	for kind := command.Create; kind <= command.Join; kind++ {
		_, _, err := decode(encode(header(), []command.Command{{Kind: command.Join, Transfer: 1, Joined: kind}}))
		assert.Equal(t, !kind.Travels(), errors.Is(err, command.ErrMalformed), "%v %v", kind, err)
	}
}

// What can be decoded means the same once it is encoded again.
func FuzzDecode(f *testing.F) {
	f.Add(encode(header(), all()))
	for _, c := range all() {
		f.Add(encode(command.Header{Format: storage.Format}, []command.Command{c}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, commands, err := decode(data)
		if err != nil {
			return
		}
		again, got, err := decode(encode(h, commands))
		assert.True(t, err == nil && again == h && reflect.DeepEqual(got, commands), "%+v, %+v, %v\nwant %+v, %+v", again, got, err, h, commands)
	})
}

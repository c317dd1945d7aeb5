package dataset

import (
	"bufio"
	"unicode/utf8"
)

// windows1252 reads text in Windows-1252 as UTF-8.
type windows1252 struct {
	from *bufio.Reader
	// high has the characters of the bytes 0x80 to 0x9f. Any other byte is the code point of its character.
	high  []rune
	bytes [utf8.UTFMax]byte
	// rest is the part of bytes, the last character in UTF-8, that the caller has not read yet.
	rest []byte
}

func newWindows1252(from *bufio.Reader) *windows1252 {
	return &windows1252{from: from, high: []rune("€\ufffd‚ƒ„…†‡ˆ‰Š‹Œ\ufffdŽ\ufffd\ufffd‘’“”•–—˜™š›œ\ufffdžŸ")}
}

func (w *windows1252) Read(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || len(w.rest) > 0 || w.from.Buffered() > 0) {
		if len(w.rest) == 0 {
			b, err := w.from.ReadByte()
			if err != nil {
				return n, err //nolint:wrapcheck // A reader passes io.EOF on.
			}
			r := rune(b)
			if b >= 0x80 && b < 0xa0 {
				r = w.high[b-0x80]
			}
			w.rest = utf8.AppendRune(w.bytes[:0], r)
		}
		read := copy(p[n:], w.rest)
		w.rest, n = w.rest[read:], n+read
	}
	return n, nil
}

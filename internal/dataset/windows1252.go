package dataset

import (
	"bufio"
	"unicode/utf8"
)

// windows1252 reads text in Windows-1252 as UTF-8.
type windows1252 struct {
	from *bufio.Reader
	// high are the characters of the bytes from 0x80 to 0x9f. Other bytes are the numbers of their characters.
	high  []rune
	bytes [utf8.UTFMax]byte
	// rest are the bytes of the last character that are not read yet, of bytes.
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

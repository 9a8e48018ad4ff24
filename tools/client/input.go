package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"queen/tools/cli"
)

const (
	// inputMax bounds a document that is read whole, from a file or standard input: the largest body a node takes by default.
	inputMax = 64 << 20
	// lineMax bounds a line of standard input in the same way.
	lineMax = inputMax
)

// document reads an argument's value: the text itself, a file, or standard input to its end.
func (s *session) document(text *string, file string) ([]byte, error) {
	switch {
	case text != nil && file != "":
		return nil, cli.Errorf(cli.Usage, "give the value or --file, not both")
	case text != nil:
		return []byte(*text), nil
	case file == "" || file == "-":
		b, err := readBounded(s.Input())
		if err != nil {
			return nil, s.BadInput(err)
		}
		return []byte(strings.TrimRight(string(b), "\r\n")), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%w", err)
	}
	defer f.Close()
	b, err := readBounded(f)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%s: %w", file, err)
	}
	return b, nil
}

func readBounded(in io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, inputMax+1))
	if err == nil && len(b) > inputMax {
		err = errors.New("longer than 64 MiB")
	}
	return b, err
}

// lines reads standard input by lines, without empty ones. waits says that no further line has come yet.
func (s *session) lines(each func(line []byte, waits bool) error) error {
	in := bufio.NewReaderSize(s.Input(), 1<<20)
	for {
		line, end, err := readLine(in)
		if err != nil {
			return s.BadInput(err)
		}
		if len(line) > 0 {
			if err := each(line, in.Buffered() == 0); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// readLine reads a line without its end.
func readLine(in *bufio.Reader) (line []byte, end bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > lineMax:
			return nil, true, errors.New("a line is longer than 64 MiB")
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), false, nil
		case errors.Is(err, io.EOF):
			return bytes.TrimRight(line, "\r\n"), true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, true, err
		}
	}
}

// objects reads what a command printed with -o json or ndjson from standard input: JSON values, those of an array one by
// one. A text that is no JSON comes as a nil value, after which there is no more. waits says that none further has come yet.
func (s *session) objects(each func(value json.RawMessage, waits bool) error) error {
	limited := &limitedReader{in: s.Input()}
	in := bufio.NewReaderSize(limited, 1<<16)
	for {
		first, err := firstByte(in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return s.BadInput(err)
		}
		d := json.NewDecoder(in)
		more, err := s.values(d, in, limited, first == '[', each)
		if err != nil || !more {
			return err
		}
		in = bufio.NewReaderSize(io.MultiReader(d.Buffered(), in), 1<<16) // behind the array
	}
}

// values reads an array, or values up to the end of the input. more is true behind an array.
func (s *session) values(d *json.Decoder, in *bufio.Reader, limited *limitedReader, array bool,
	each func(json.RawMessage, bool) error) (more bool, err error) {
	if array {
		_, err = d.Token() // the bracket that was seen
	}
	for err == nil && (!array || d.More()) {
		limited.left = inputMax
		var value json.RawMessage
		if err = d.Decode(&value); err == nil {
			if err := each(value, in.Buffered() == 0 && blank(d.Buffered())); err != nil {
				return false, err
			}
		}
	}
	if array && err == nil {
		_, err = d.Token()
	}
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, io.EOF) && !array:
		return false, nil
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return false, each(nil, true)
	}
	return false, s.BadInput(err)
}

// alsoSend sends what came before the end of the input, or before what is wrong with it; an interrupt leaves it.
func (s *session) alsoSend(err error, send func() error) error {
	switch {
	case s.Ctx.Err() == nil:
		return errors.Join(err, send())
	case err != nil: // perhaps of a call that was interrupted
		return err
	}
	return cli.Exit(cli.Interrupted)
}

// limitedReader keeps a value that never ends from filling the memory.
type limitedReader struct {
	in   io.Reader
	left int
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if l.left <= -(1 << 20) { // what is read ahead belongs to the next value
		return 0, errors.New("a value is longer than 64 MiB")
	}
	n, err := l.in.Read(b)
	l.left -= n
	return n, err
}

// firstByte is the first byte that is no space, which stays unread.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// blank tells whether a value is all that was read.
func blank(rest io.Reader) bool {
	_, err := firstByte(bufio.NewReaderSize(rest, 16))
	return err != nil
}

// instant is a time of the command line as the API takes it.
func instant(flag, text string) (string, error) {
	t, err := cli.ParseTime(flag, text)
	return t.Format(time.RFC3339Nano), err
}

// wholeSeconds checks a lifetime.
func wholeSeconds(flag string, d time.Duration) (int64, error) {
	if d < time.Second || d%time.Second != 0 {
		return 0, cli.Errorf(cli.Usage, "--%s %s: want whole seconds, at least 1s", flag, d)
	}
	return int64(d / time.Second), nil
}

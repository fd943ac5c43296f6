package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"belay/internal/fault"
)

// Charset names how text stands in bytes.
type Charset string

// The charsets that are recognised. The two single-byte ones are a fallback
// for bytes that are not UTF-8: every byte has its own character in them, so
// that they always come back as they were.
const (
	UTF8        Charset = "utf-8"
	UTF16LE     Charset = "utf-16le"
	UTF16BE     Charset = "utf-16be"
	Latin1      Charset = "iso-8859-1"
	Windows1252 Charset = "windows-1252"
)

// EOL names the line endings of a content.
type EOL string

// The line-ending styles. NoEOL is a content without any.
const (
	NoEOL EOL = ""
	LF    EOL = "lf"
	CRLF  EOL = "crlf"
	CR    EOL = "cr"
	Mixed EOL = "mixed"
)

// Encoding is everything about a text file that its shown text does not say.
// The zero value is not usable; UTF8 with LF is what new files get.
type Encoding struct {
	Charset Charset
	BOM     bool
	EOL     EOL
}

var marks = []struct {
	charset Charset
	mark    string
}{
	{UTF8, "\xef\xbb\xbf"},
	{UTF16LE, "\xff\xfe"},
	{UTF16BE, "\xfe\xff"},
}

func (e Encoding) mark() string {
	if e.BOM {
		for _, m := range marks {
			if m.charset == e.Charset {
				return m.mark
			}
		}
	}
	return ""
}

func (c Charset) codec() encoding.Encoding {
	switch c {
	case UTF16LE:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case UTF16BE:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case Latin1:
		return charmap.ISO8859_1
	case Windows1252:
		return charmap.Windows1252
	}
	return nil
}

// Decode returns the text that a model is shown (line endings as "\n", no
// byte-order mark) and what Encode needs to write it back. Bytes that are no
// text are a fault of kind not_text.
func Decode(content []byte) (string, Encoding, error) {
	raw, enc, err := decodeRaw(content)
	if err != nil {
		return "", Encoding{}, err
	}
	return newView(raw, enc.EOL).shown, enc, nil
}

// Encode writes text in an encoding: charset and byte-order mark as in enc,
// and, when text has only "\n" and enc is CRLF or CR throughout, that ending.
// Text with carriage returns of its own is written as it is. A character that
// the charset does not have is a fault that names it and its line.
func Encode(text string, enc Encoding) ([]byte, error) {
	if enc.BOM {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if !strings.Contains(text, "\r") {
		switch enc.EOL {
		case CRLF:
			text = strings.ReplaceAll(text, "\n", "\r\n")
		case CR:
			text = strings.ReplaceAll(text, "\n", "\r")
		}
	}
	return encodeRaw(text, enc)
}

// decodeRaw decodes without touching line endings, and proves that encodeRaw
// brings the same bytes back.
func decodeRaw(content []byte) (string, Encoding, error) {
	enc := Encoding{Charset: UTF8}
	for _, m := range marks {
		if bytes.HasPrefix(content, []byte(m.mark)) {
			enc.Charset, enc.BOM = m.charset, true
			content = content[len(m.mark):]
			break
		}
	}
	if enc.Charset == UTF8 && !utf8.Valid(content) {
		if enc.BOM {
			return "", enc, notText("it starts with a UTF-8 byte-order mark but is not valid UTF-8")
		}
		enc.Charset = singleByte(content)
	}
	raw := string(content)
	if codec := enc.Charset.codec(); codec != nil {
		b, err := codec.NewDecoder().Bytes(content)
		if err != nil {
			return "", enc, notText("it is not valid " + string(enc.Charset))
		}
		raw = string(b)
		back, err := codec.NewEncoder().Bytes(b)
		if err != nil || !bytes.Equal(back, content) {
			return "", enc, notText("it is not valid " + string(enc.Charset))
		}
	}
	if i := strings.IndexByte(raw, 0); i >= 0 {
		return "", enc, notText(fmt.Sprintf("it has a NUL character in line %d", 1+strings.Count(raw[:i], "\n")))
	}
	if enc.Charset == Latin1 || enc.Charset == Windows1252 {
		// Without NUL characters, foreign control characters are what tells
		// compressed or compiled bytes from old western text.
		foreign := func(r rune) bool { return control(r, "\t\n\r\f\v\b\x1b") }
		if i := strings.IndexFunc(raw, foreign); i >= 0 {
			return "", enc, notText(fmt.Sprintf("it is not valid UTF-8 and has the control character %U", raw[i]))
		}
	}
	enc.EOL = eolOf(raw)
	return raw, enc, nil
}

// singleByte picks between the two western charsets: bytes 0x80 to 0x9f are
// control characters in ISO 8859-1 and mostly letters and quotes in
// Windows-1252.
func singleByte(content []byte) Charset {
	for _, b := range content {
		if b >= 0x80 && b <= 0x9f {
			return Windows1252
		}
	}
	return Latin1
}

// control reports control characters except those in allowed.
func control(r rune, allowed string) bool {
	return (r < 0x20 || r == 0x7f) && !strings.ContainsRune(allowed, r)
}

func encodeRaw(raw string, enc Encoding) ([]byte, error) {
	codec := enc.Charset.codec()
	if codec == nil {
		return []byte(enc.mark() + raw), nil
	}
	b, err := codec.NewEncoder().Bytes([]byte(raw))
	if err == nil {
		return append([]byte(enc.mark()), b...), nil
	}
	line := 1
	for _, r := range raw {
		if _, err := codec.NewEncoder().String(string(r)); err != nil {
			return nil, fault.New(fault.InvalidArguments, fault.Model,
				fmt.Sprintf("the file is written in %s, which has no character %q (line %d)", enc.Charset, r, line),
				"use characters that the file's charset has, or an escape of the language")
		}
		if r == '\n' {
			line++
		}
	}
	return nil, fmt.Errorf("edit: encoding text as %s: %w", enc.Charset, err)
}

func eolOf(raw string) EOL {
	crlf := strings.Count(raw, "\r\n")
	lf := strings.Count(raw, "\n") - crlf
	switch {
	case crlf > 0 && lf > 0:
		return Mixed
	case crlf > 0:
		return CRLF
	case lf > 0:
		return LF
	case strings.Contains(raw, "\r"):
		// A carriage return ends a line only where nothing else does.
		return CR
	}
	return NoEOL
}

func notText(why string) error {
	return fault.New(fault.NotText, fault.Model, "the file is not text: "+why,
		"leave it alone, or work on it with a command made for its format")
}

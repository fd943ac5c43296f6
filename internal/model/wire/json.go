package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendText appends s as the inside of a JSON string, without the quotes.
// Invalid UTF-8 becomes U+FFFD; nothing is escaped that JSON does not demand.
// Appending a and then b gives the same bytes as appending a+b when both are
// valid UTF-8, which is what lets a later request extend an earlier one.
func AppendText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = replaceInvalid(s)
	}
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !escaped[c] {
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// escaped are the bytes that JSON does not allow in a string as they are.
var escaped = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// replaceInvalid puts U+FFFD for each invalid byte, as encoding/json does, so
// that a text has the same bytes before and after a trip through the ledger.
func replaceInvalid(s string) string { return string([]rune(s)) }

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	return append(AppendText(append(dst, '"'), s), '"')
}

// AppendRaw appends JSON in the form that it has after a trip through the
// ledger: without insignificant space, and with <, > and & escaped. So a
// request built before a restart has the same bytes as one built after it.
// what names the JSON in the error for one that is none.
func AppendRaw(dst []byte, raw json.RawMessage, what string) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", what, err)
	}
	b := bytes.NewBuffer(dst)
	json.HTMLEscape(b, compact.Bytes())
	return b.Bytes(), nil
}

// Object returns the arguments of a call as a JSON object, which is what every
// wire can take back. What the model wrote is kept byte for byte when it is an
// object; else it is shown to the model as the string "_raw", so that it sees
// its own mistake and the history stays one that the provider accepts. (On the
// wires where arguments are a string, some servers parse it all the same and
// refuse the request when they cannot.)
func Object(arguments string) json.RawMessage {
	text := bytes.TrimSpace([]byte(arguments))
	if len(text) == 0 {
		return json.RawMessage("{}")
	}
	if text[0] == '{' && utf8.Valid(text) && json.Valid(text) {
		return text
	}
	return append(AppendString([]byte(`{"_raw":`), arguments), '}')
}

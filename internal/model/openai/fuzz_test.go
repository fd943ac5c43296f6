package openai

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"belay/internal/fault"
	"belay/internal/model"
	"belay/internal/model/wire"
)

// read puts one stream together; the kind is that of the error, if any.
func read(r io.Reader) (model.Response, fault.Kind) {
	c := newCollector(wire.Target{Provider: Provider}, "r", nil)
	resp, err := model.Response{}, c.stream(r)
	if err == nil {
		resp, err = c.response()
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		return model.Response{}, f.Kind
	}
	return resp, ""
}

// Whatever a server sends: no panic, either a response or a fault, and the same
// one however the bytes are split.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]}}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"t\"}},{\"id\":\"x\",\"function\":{\"arguments\":{}}}]},\"finish_reason\":\"stop\"}]}\r\r"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"index\":0,\"type\":\"x\",\"text\":\"a\"},{\"index\":0,\"type\":\"x\",\"text\":1},{\"index\":{}}]}}]}\n\ndata: [DONE]"))
	f.Add([]byte(": c\ndata: {\"error\":{\"code\":429}}\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"function_call\":{\"name\":\"f\",\"arguments\":\"{\"}},\"finish_reason\":\"length\"}],\"usage\":{}}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		one, oneKind := read(bytes.NewReader(stream))
		two, twoKind := read(iotest.OneByteReader(bytes.NewReader(stream)))
		if oneKind != twoKind || !reflect.DeepEqual(one, two) {
			t.Fatalf("%+v %q and byte by byte %+v %q", one, oneKind, two, twoKind)
		}
		if oneKind != "" {
			return
		}
		for _, p := range one.Parts {
			if p.Kind == "tool_call" && (p.CallID == "" || p.Tool == "") {
				t.Fatalf("a call that cannot be answered: %+v", p)
			}
		}
	})
}

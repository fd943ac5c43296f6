package anthropic

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
	c := &collector{target: wire.Target{Provider: Provider}, onDelta: func(model.Delta) {}}
	resp, err := model.Response{}, c.stream(r)
	if err == nil {
		resp, err = c.response("r")
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
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"t\",\"input\":{}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"thinking\"}}\r\rdata: {\"type\":\"message_stop\"}\r\r"))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"new\",\"input\":[1]}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add([]byte("data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"))
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

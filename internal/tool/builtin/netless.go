package builtin

import "bytes"

// netless looks in output for the words of programs that found no network.
type netless struct {
	seen bool
	tail []byte
}

// netlessWords are such words in lower case. They only decide whether the model
// is told how to ask, so a few of the most common do.
var netlessWords = [][]byte{
	[]byte("could not resolve host"), []byte("temporary failure in name resolution"), []byte("name or service not known"), []byte("no such host"),
	[]byte("network is unreachable"), []byte("getaddrinfo eai_again"), []byte("getaddrinfo enotfound"), []byte("server misbehaving"),
	[]byte("temporary failure resolving"), []byte("dial udp"),
	[]byte("failed to establish a new connection"), []byte("nodename nor servname"),
}

// Write implements io.Writer.
func (n *netless) Write(p []byte) (int, error) {
	const longest = 64
	if n.seen {
		return len(p), nil
	}
	text := bytes.ToLower(append(n.tail, p...))
	for _, w := range netlessWords {
		n.seen = n.seen || bytes.Contains(text, w)
	}
	n.tail = append(n.tail[:0], text[max(0, len(text)-longest):]...)
	return len(p), nil
}

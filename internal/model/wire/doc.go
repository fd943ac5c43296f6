// Package wire is what the model adapters share: the HTTP exchange, the SSE
// reader, the sorting of provider errors into faults, canonical JSON, the
// normal form of a history, and the token estimate.
//
// It must not know any one provider's messages. An adapter hands it bytes to
// send and reads the reply; what the bytes mean is the adapter's.
//
// # One request, no more
//
// Post sends exactly one request and follows no redirect: a redirected POST
// would carry the user's key to a host that the user never named. Nothing here
// retries; the core decides that from the fault's kind, and it can only count
// what it pays for if one Send is one request.
//
// # Silence
//
// A stream may legitimately take long, but not in silence: providers send
// pings or comments while a model thinks. So there is no limit on the whole
// exchange here (that is the caller's context) but one on the wait for the
// first byte and one on the silence between two reads. Both end the exchange
// with a fault of kind timeout.
//
// # Whole or nothing
//
// A reply that ends before its protocol's own end mark was cut, and nothing in
// it may run. Every reader reports that as stream_cut and never as a shorter
// reply. A reply that ends properly but cannot be understood is
// malformed_reply: another try may bring a better one.
//
// # Bytes
//
// Providers cache by prefix, so the bytes of a request are part of what the
// adapters promise: fields in a fixed order, written by hand, and everything
// that changes from one request to the next after everything that does not.
// Object, Name and IDs repair what a model wrote so that it can be sent back,
// each as a function of the history before it alone, which keeps the prefix
// stable.
//
// # Secrets
//
// The key is set on the request's header and nowhere else. Texts that come
// from the provider or from net/http are scrubbed of it before they enter a
// fault, since faults are stored and shown.
package wire

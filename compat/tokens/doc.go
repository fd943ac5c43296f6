// Package tokens holds the token estimate of the model wires against a real
// vocabulary. It stands by itself so that it builds without the SDKs.
package tokens

//go:build !linux

package local

func exchange(fd int, a, b string) error  { return exchangeByLink(fd, a, b) }
func place(fd int, from, to string) error { return placeByLink(fd, from, to) }

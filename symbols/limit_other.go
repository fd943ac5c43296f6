//go:build !linux

package main

func limit() {}

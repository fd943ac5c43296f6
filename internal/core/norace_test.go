//go:build !race

package core_test

// defaultSeeds is how many goals one run of the tests simulates.
const defaultSeeds = 10_000

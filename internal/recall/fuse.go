package recall

import "sort"

// fuseK damps the first ranks: with it no single ranking's first place outweighs
// two rankings that agree a little further down.
const fuseK = 60

// Fuse makes one ranking of several by reciprocal rank: each list gives every
// key in it 1/(60+rank), first rank 1, and the sums are ordered. A key that
// occurs twice in one list counts at its better rank. Equal sums stand in the
// order in which the keys first appear, list by list.
func Fuse(lists ...[]string) []string {
	score := map[string]float64{}
	var order []string
	for _, l := range lists {
		here := map[string]bool{}
		for _, k := range l {
			if here[k] {
				continue
			}
			here[k] = true
			if _, known := score[k]; !known {
				order = append(order, k)
			}
			score[k] += 1 / float64(fuseK+len(here))
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return score[order[i]] > score[order[j]] })
	return order
}

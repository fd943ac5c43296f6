package sqlite

import "context"

// OpSeqs implements ledger.Finder.
func (l *Ledger) OpSeqs(ctx context.Context, goal, op string) ([]uint64, error) {
	// The second condition is what the index is made under.
	rows, err := l.query(ctx, "SELECT seq FROM events WHERE goal = ? AND op = ? AND op <> '' ORDER BY seq", goal, op)
	if err != nil {
		return nil, l.wrap("find operation "+op, err)
	}
	defer rows.Close()
	var out []uint64
	for rows.Next() {
		var seq uint64
		if err := rows.Scan(&seq); err != nil {
			return nil, l.wrap("find operation "+op, err)
		}
		out = append(out, seq)
	}
	return out, l.wrap("find operation "+op, rows.Err())
}

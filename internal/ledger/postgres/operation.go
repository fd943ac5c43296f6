package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const selectOperation = `SELECT seq FROM @events WHERE goal = $1 AND op = $2 AND op <> '' ORDER BY seq`

// OpSeqs implements ledger.Finder.
func (l *Ledger) OpSeqs(ctx context.Context, goal, op string) (out []uint64, err error) {
	if !storable(goal) || !storable(op) {
		return nil, nil
	}
	err = l.read(ctx, "find operation "+op, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, l.q(selectOperation), goal, op)
		if err != nil {
			return err
		}
		seqs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		out = nil
		for _, s := range seqs {
			out = append(out, uint64(s))
		}
		return err
	})
	return out, err
}

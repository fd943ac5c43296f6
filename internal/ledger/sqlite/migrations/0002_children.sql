-- The goal that started this one, '' for none.
ALTER TABLE goals ADD COLUMN parent TEXT NOT NULL DEFAULT '';

CREATE INDEX goals_parent ON goals (parent, created, goal) WHERE parent <> '';

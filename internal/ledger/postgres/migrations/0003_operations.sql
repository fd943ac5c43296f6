-- The events of one operation, wherever in a long goal they are.
CREATE INDEX events_op ON events (goal, op, seq) WHERE op <> '';

-- The events are the only source of truth; every other table but artifacts can
-- be rebuilt from them.
CREATE TABLE events (
  goal    TEXT    NOT NULL,
  seq     INTEGER NOT NULL,
  id      TEXT    NOT NULL,
  type    TEXT    NOT NULL,
  version INTEGER NOT NULL,
  time    INTEGER NOT NULL, -- microseconds since the Unix epoch
  turn    TEXT    NOT NULL,
  op      TEXT    NOT NULL,
  cause   TEXT    NOT NULL,
  actor   TEXT    NOT NULL,
  fence   INTEGER NOT NULL,
  spilled INTEGER NOT NULL, -- 1: payload is the reference to an artifact
  payload BLOB    NOT NULL, -- JSON, byte for byte as hashed
  hash    TEXT    NOT NULL,
  PRIMARY KEY (goal, seq)
) STRICT;

CREATE TABLE goals (
  goal         TEXT    NOT NULL PRIMARY KEY,
  title        TEXT    NOT NULL,
  repo         TEXT    NOT NULL,
  status       TEXT    NOT NULL,
  wait_reason  TEXT    NOT NULL,
  pause_reason TEXT    NOT NULL,
  version      INTEGER NOT NULL,
  fence        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  runnable     INTEGER NOT NULL,
  wake_at      INTEGER NOT NULL,
  head         INTEGER NOT NULL,
  created      INTEGER NOT NULL,
  updated      INTEGER NOT NULL,
  how          TEXT    NOT NULL,
  steps        INTEGER NOT NULL,
  tokens       INTEGER NOT NULL,
  cost_micros  INTEGER NOT NULL,
  lease_owner  TEXT    NOT NULL,
  lease_until  INTEGER NOT NULL,
  -- The store's own: ready is 1 once the goal may be claimed by urgency, due
  -- is since when. A sleeping goal becomes ready by the first claim after its
  -- wake_at, so that a claim looks at ready goals alone, in their order.
  ready        INTEGER NOT NULL,
  due          INTEGER NOT NULL
) STRICT;

CREATE INDEX goals_created ON goals (created DESC, goal DESC);
CREATE INDEX goals_ready ON goals (priority DESC, due, goal) WHERE ready = 1;
CREATE INDEX goals_asleep ON goals (wake_at) WHERE ready = 0 AND wake_at > 0;

CREATE TABLE artifacts (
  sha256 TEXT    NOT NULL PRIMARY KEY,
  size   INTEGER NOT NULL, -- bytes, uncompressed
  media  TEXT    NOT NULL,
  zstd   INTEGER NOT NULL, -- 1: compressed
  stored INTEGER NOT NULL, -- bytes, as kept
  body   BLOB,             -- NULL: kept in a file under artifacts/
  seen   INTEGER NOT NULL  -- when it was last put
) STRICT;

CREATE TABLE caches (
  goal   TEXT    NOT NULL PRIMARY KEY,
  seq    INTEGER NOT NULL,
  schema INTEGER NOT NULL,
  body   BLOB    NOT NULL -- zstd
) STRICT;

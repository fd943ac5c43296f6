-- The store's clock in microseconds since the Unix epoch: the server's, so that
-- workers on many machines agree on leases. It is a function so that there is
-- one clock and one place that reads it.
CREATE FUNCTION store_clock() RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint $$;

-- The events are the only source of truth; every other table but those of the
-- artifacts can be rebuilt from them. Text that is compared or ordered is of
-- collation C: by bytes, whatever the database's locale.
CREATE TABLE events (
  goal    text COLLATE "C" NOT NULL,
  seq     bigint  NOT NULL,
  id      text    NOT NULL,
  type    text    NOT NULL,
  version integer NOT NULL,
  time    bigint  NOT NULL, -- microseconds since the Unix epoch
  turn    text    NOT NULL,
  op      text    NOT NULL,
  cause   text    NOT NULL,
  actor   text    NOT NULL,
  fence   bigint  NOT NULL,
  spilled boolean NOT NULL, -- payload is the reference to an artifact
  payload bytea   NOT NULL, -- JSON, byte for byte as hashed
  hash    text    NOT NULL,
  PRIMARY KEY (goal, seq)
);

CREATE TABLE goals (
  goal         text COLLATE "C" NOT NULL PRIMARY KEY,
  title        text    NOT NULL,
  repo         text    NOT NULL,
  status       text    NOT NULL,
  wait_reason  text    NOT NULL,
  pause_reason text    NOT NULL,
  version      bigint  NOT NULL,
  fence        bigint  NOT NULL,
  priority     bigint  NOT NULL,
  runnable     boolean NOT NULL,
  wake_at      bigint  NOT NULL,
  head         bigint  NOT NULL,
  created      bigint  NOT NULL,
  updated      bigint  NOT NULL,
  how          text    NOT NULL,
  steps        bigint  NOT NULL,
  tokens       bigint  NOT NULL,
  cost_micros  bigint  NOT NULL,
  lease_owner  text    NOT NULL,
  lease_until  bigint  NOT NULL,
  -- The store's own: ready once the goal may be claimed by urgency, due is
  -- since when. A sleeping goal becomes ready by the first claim after its
  -- wake_at, so that a claim looks at ready goals alone, in their order.
  ready        boolean NOT NULL,
  due          bigint  NOT NULL
) WITH (
  -- The rows are few and change all the time: claims, renewals and releases
  -- touch no index and stay on their page while there is room on it.
  fillfactor = 60, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.05
);

CREATE INDEX goals_created ON goals (created DESC, goal DESC);
CREATE INDEX goals_ready ON goals (priority DESC, due, goal) WHERE ready;
CREATE INDEX goals_asleep ON goals (wake_at) WHERE NOT ready AND wake_at > 0;

-- The content of large artifacts, compressed and cut into chunks, under an id
-- of its own: the address is known only when the last chunk has been written.
CREATE TABLE uploads (
  id      uuid    NOT NULL PRIMARY KEY,
  kept    boolean NOT NULL, -- an artifact's row names it
  touched bigint  NOT NULL
);
CREATE INDEX uploads_loose ON uploads (touched) WHERE NOT kept;

CREATE TABLE chunks (
  upload uuid    NOT NULL REFERENCES uploads ON DELETE CASCADE,
  n      integer NOT NULL,
  body   bytea   NOT NULL,
  PRIMARY KEY (upload, n)
);
ALTER TABLE chunks ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE artifacts (
  sha256 text COLLATE "C" NOT NULL PRIMARY KEY,
  size   bigint  NOT NULL, -- bytes, uncompressed
  media  text    NOT NULL,
  zstd   boolean NOT NULL,
  stored bigint  NOT NULL, -- bytes, as kept
  body   bytea,            -- NULL: kept in the chunks of upload
  upload uuid REFERENCES uploads,
  seen   bigint  NOT NULL  -- when it was last put
);
ALTER TABLE artifacts ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE caches (
  goal   text COLLATE "C" NOT NULL PRIMARY KEY,
  seq    bigint NOT NULL,
  schema bigint NOT NULL,
  body   bytea  NOT NULL -- zstd
);
ALTER TABLE caches ALTER COLUMN body SET STORAGE EXTERNAL;

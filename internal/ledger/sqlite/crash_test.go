package sqlite

const childDir = "BELAY_LEDGER_TEST_DIR"

func child(dir string) {}

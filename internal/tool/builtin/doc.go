// Package builtin holds the tools that every model is offered: reading,
// listing and searching the workspace, writing and patching files, running
// commands and tests, and the control tools that the core answers. One file a
// tool; what several tools share stands in files of its own.
//
// A tool reads its arguments, does one thing through the ports, and says in
// words and values what came of it. It must not know permission, retries,
// recovery, the ledger or a model: whether it may run, run again, or how its
// outcome counts is decided elsewhere, from its effect class and the values it
// returns.
//
// # What a model sees
//
// Text of a file is shown with line numbers, `     7→text`, tabs as tabs;
// line endings and byte-order marks are hidden, named in a header line, and
// kept by every edit. Whatever is long is shown as head and tail with a note
// of what is missing; the whole is an artifact, and `artifact:SHA256` in place
// of a path lets read_file and search_text work on it.
//
// # Habits of models that are accepted
//
// Besides those of package args: file_path, filename and file for path; cwd,
// workdir and their kin for dir; old_text/new_text and old_str/new_str for
// old_string/new_string; an absolute path below the workspace root; line
// numbers are not accepted in old_string, but named when they are the reason.
// An edit with an empty old_string creates a file that does not exist yet.
package builtin

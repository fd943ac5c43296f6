// Package edit changes text as a model proposes it, and keeps every byte that
// the model did not ask to change. It is pure: bytes in, bytes out. It must
// not know files, paths, goals or tools.
//
// # What a model sees and what stands on disk
//
// A model is shown text: one kind of line ending, no byte-order mark, Unicode.
// A file may have any of several charsets, a mark, CRLF or a mixture of line
// endings, and may or may not end with a newline. Everything here works on two
// views of one content: the raw text (decoded, endings as they are) and the
// shown text (endings as "\n"), with an exact map between their offsets. A
// replacement is found in the shown text and made in the raw text.
//
// # Minimal spans
//
// A replacement of Old by New is first reduced to what differs between the
// two. Context that the model repeated to say where it means is therefore
// never written: its line endings, its typographic quotes and its trailing
// blanks stay as they are. A line ending inside inserted text takes the ending
// of the line that it replaces or stands in, so that a mixed file stays mixed
// in the same way.
//
// # Tolerance
//
// An exact match (after line endings) always wins. Only when there is none are
// three weaker readings tried, in this order: a missing newline at the end of
// the file; typographic look-alikes (quotes, dashes, no-break spaces); blanks
// and indentation by whole lines. A weaker reading counts only when it fits in
// exactly one place. Result.Notes says which one was used.
//
// # A full rewrite
//
// Rewrite replaces the whole text of an existing file. Charset and byte-order
// mark are kept. Line endings: when the new text has only "\n", the file's own
// endings are restored (CRLF where the file was uniformly CRLF; in a mixed
// file each kept line keeps its own). When the new text has "\r\n" of its own,
// it is written as it is: the writer was explicit.
package edit

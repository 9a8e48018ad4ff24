// Package format holds the bytes and the vocabulary: every file kind, every record, every command
// of an entry and every verdict about one, as plain structs with pure encoders and decoders.
//
// It promises that decode(encode(x)) is x, that no input makes a decoder panic or allocate more
// than a bound it names, and that the numbers written to disk never change meaning: each file kind
// starts with magic, version and minimum reader version, and FORMAT.md beside this file has a line
// for every byte. It deliberately knows no file, no clock and no policy: machine decides verdicts,
// logstore decides where bytes go.
//
// All functions are pure and safe for concurrent use. Decoded structs alias the input bytes unless
// a function says that it copies.
//
// Read first: Entry and CommandReader (what an entry asks for), Result (what apply decided), Place (when);
// for files, FORMAT.md section 1, then ExtentHead and RecordHead.
package format

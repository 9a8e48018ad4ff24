package cli

import (
	"errors"
	"fmt"
)

// Exit codes. Scripts rely on them.
const (
	// Done: everything asked for was done.
	Done = 0
	// Usage: the command or its input is wrong, or the node refused what was asked as wrong.
	Usage = 1
	// Server: the node failed, refused for now, or can not be reached. Nothing was done.
	Server = 2
	// Auth: the node does not know the caller or does not allow the call.
	Auth = 3
	// Nothing: there was nothing to do, as with a pop that got no message. Not an error.
	Nothing = 4
	// Findings: a check found something.
	Findings = 5
	// Partly: some or all items failed; the report on standard output says which.
	Partly = 6
	// OutcomeUnknown: the call may have been carried out. Sending it again with the same ids is safe.
	OutcomeUnknown = 7
	// Refused: a safety rule of the command keeps it from being carried out, as a name that was typed wrong. Nothing was done.
	Refused = 8
	// Fatal: a node could not go on, as after a failed flush.
	Fatal = 70
	// Interrupted: a signal ended a command that would have run on.
	Interrupted = 130
)

// Meanings are the exit codes in order, with what they mean: the page of the command line and the manual print them.
var Meanings = []struct {
	Code int
	Text string
}{
	{Done, "done"},
	{Usage, "the command or its input is wrong, or refused as wrong"},
	{Server, "the node failed or can not be reached; nothing was done"},
	{Auth, "the caller is not known or not allowed"},
	{Nothing, "there was nothing to do"},
	{Findings, "a check found something"},
	{Partly, "some or all items failed; the report says which"},
	{OutcomeUnknown, "it may have been carried out: send it again with the same ids"},
	{Refused, "a safety rule refused it; nothing was done"},
	{Fatal, "a node could not go on"},
	{Interrupted, "a signal ended it"},
}

// Error is an error with the exit code of its class. A nil Err ends the command silently.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf is an *Error of a class.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Exit ends the command with a code and says nothing, because the output already did.
func Exit(code int) error {
	if code == Done {
		return nil
	}
	return &Error{Code: code}
}

// Code is the exit code of an error; one without a class is about the command line.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.Code
	}
	return Usage
}

// Silent tells whether an error has nothing to say.
func Silent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Err == nil
}

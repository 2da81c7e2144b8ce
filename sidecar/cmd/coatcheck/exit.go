package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// The exit codes of all commands. Those from 64 on are taken from sysexits.h where it has one that fits, because few
// commands that run under `lock run` use them.
const (
	exitOK            = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNo            = 3
	exitRunUsage      = 64
	exitTooLarge      = 65
	exitUnreachable   = 69
	exitFault         = 70
	exitUnknown       = 74
	exitTaken         = 75
	exitLost          = 76
	exitRefused       = 77
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

// exitCodes is the table of exit codes. docs/commands.md repeats it.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "it was done; the answer is yes"},
	{exitFailed, "`serve` or `check-config` failed, `journal` did or found damage, or a file could not be made or read"},
	{exitUsage, "the command line is wrong"},
	{exitNo, "the answer is no: there is no such key, the condition did not hold, nobody held the lock"},
	{exitRunUsage, "the command line of `lock run` is wrong"},
	{exitTooLarge, "the value is too large for the daemon"},
	{exitUnreachable, "the daemon cannot be reached, is shutting down, or the other hosts are not there; nothing was done"},
	{exitFault, "a fault of the daemon, or it is of another version; its log says more"},
	{exitUnknown, "no answer came: what was asked for may have been done or not"},
	{exitTaken, "`lock run`: another holds the lock; the command was not started"},
	{exitLost, "`lock run`: the lock was lost before the command ended"},
	{exitRefused, "the daemon refused: the value is no integer, memory is full, this user may not, and so on; nothing was changed"},
	{exitNotExecutable, "`lock run`: the command cannot be executed"},
	{exitNotFound, "`lock run`: there is no such command"},
	{exitSignalled, "and more: `lock run`'s command died of a signal, whose number is added"},
}

// exitError is an error with an exit code of its own. Without err the code says it all.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// failed is an error of the daemon itself or of its settings.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

// yes is nil when the daemon's answer is yes, and exitNo otherwise.
func yes(answer bool) error {
	if answer {
		return nil
	}
	return &exitError{code: exitNo}
}

// unreachable is the error of a connection that could not be made.
func unreachable(err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return &exitError{codeOf(e), err}
	}
	return &exitError{exitUnreachable, err}
}

// unanswered is the error of a request: the daemon's, or that there was none.
func unanswered(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return &exitError{codeOf(e), err}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (--timeout)", err)
	}
	return &exitError{exitUnknown, fmt.Errorf("%w; it may have been done or not", err)}
}

// codeOf returns the exit code for an error that the daemon reported.
func codeOf(e *wire.Error) int {
	switch e.Code {
	case wire.Busy:
		return exitTaken
	case wire.Refused:
		return exitRefused
	case wire.Unreachable:
		return exitUnknown
	case wire.TooLarge:
		return exitTooLarge
	case wire.Unavailable:
		return exitUnreachable
	}
	return exitFault
}

// newExitCodes is a page of help, no command.
func newExitCodes() *cobra.Command {
	var page strings.Builder
	page.WriteString("The exit codes of all commands:\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&page, "  %3d  %s\n", e.code, e.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "The exit codes of all commands", Long: strings.TrimRight(page.String(), "\n")}
}

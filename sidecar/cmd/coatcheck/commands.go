package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of all commands.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not happen
	exitUsage  = 2 // the command line is wrong
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// run executes the command line and returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(errOut, "coatcheck:", err)
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return exitUsage
}

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "coatcheck",
		Short:         "Keeps PHP's sessions, locks and cache",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServe(), newCheckConfig(), newPing(), newStatus())
	return root
}

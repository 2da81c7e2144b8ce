package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// run executes the command line and returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{exitUsage, err}
	}
	if exit.err != nil {
		fmt.Fprintln(errOut, "coatcheck:", exit.err)
	}
	return exit.code
}

// help is what a command that only has commands of its own does. That it does something lets cobra refuse unknown ones.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "coatcheck",
		Short:         "Keeps PHP's sessions, locks and cache",
		Example:       "  coatcheck serve --socket /run/coatcheck/coatcheck.sock\n  coatcheck lock run nightly -- /usr/local/bin/nightly",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServe(), newCheckConfig(), newPing(), newStatus(),
		newKV(), newLock(), newLocks(), newSessions(), newJournal(), newRedisUser(), newMembers(), newCluster(), newTLS(), newExitCodes())
	return root
}

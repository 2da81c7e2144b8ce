package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// completionTimeout is how long the Tab key may wait for the daemon.
const completionTimeout = time.Second

// suggest asks the daemon for names. What goes wrong is not told: the shell has no place for it.
func (a *asker) suggest(cmd *cobra.Command, method string, params wire.Pairs, names func(any) []string) ([]string, cobra.ShellCompDirective) {
	quick := *a
	quick.timeout = completionTimeout
	answer, err := quick.ask(cmd.Context(), method, params)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var fit []string
	for _, name := range names(answer) {
		if name != "" && strings.IndexFunc(name, isUnfit) < 0 {
			fit = append(fit, name)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// maxSuggested is how many names the Tab key offers.
const maxSuggested = 100

// completeKey offers keys of the bucket. A value after the key is nobody's to guess.
func (k *keyspace) completeKey(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Name() != "del" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	params := wire.Pairs{pair("prefix", typed), pair("count", maxSuggested), pair("bucket", k.bucket)}
	return k.suggest(cmd, "kv.scan", params, func(answer any) (names []string) {
		_, keys := scanned(answer)
		for _, key := range keys {
			names = append(names, string(key))
		}
		return names
	})
}

// completeLock offers the named locks that are held in the bucket of the command's flags.
func (a *asker) completeLock(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // `lock run` has a command there
	}
	bucket, _ := cmd.Flags().GetString("bucket")
	params := wire.Pairs{pair("prefix", typed), pair("limit", maxSuggested), pair("bucket", bucket)}
	return a.suggest(cmd, "lock.list", params, func(answer any) (names []string) {
		for _, l := range rows(answer) {
			names = append(names, l.text("name"))
		}
		return names
	})
}

// completeSession offers the beginnings of ids of locked sessions.
func (a *asker) completeSession(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggest(cmd, "server.locks", nil, func(answer any) (names []string) {
		for _, l := range rows(answer) {
			if id := beginning(l.text("name")); l.text("kind") == "session" && strings.HasPrefix(id, typed) {
				names = append(names, id)
			}
		}
		return names
	})
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

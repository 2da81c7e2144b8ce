package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

func newSessions() *cobra.Command {
	var l lister
	var id string
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Show sessions, or release the lock of one by force",
		Long: `Show the records of sessions, without their data. Ids of sessions are credentials: their first six characters are shown.
--id takes the beginning of an id, as lists show it, or a whole id; nothing in between.`,
		Example: "  coatcheck sessions --id 3f9a\n  coatcheck sessions --json --limit 10",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.list(cmd, "server.sessions", wire.Pairs{pair("id", beginning(id))}, printSessions)
		},
	}
	l.addTo(cmd.PersistentFlags())
	l.addJSON(cmd.PersistentFlags())
	cmd.Flags().IntVar(&l.limit, "limit", 1000, "greatest `NUMBER` of sessions")
	cmd.Flags().StringVar(&id, "id", "", "only `ID`, or those that begin so")
	cmd.AddCommand(newSessionsRelease(&l.asker))
	return cmd
}

// beginning returns an id without the sign that lists put in place of its end.
func beginning(id string) string { return strings.TrimSuffix(id, "…") }

func printSessions(w io.Writer, sessions []row) {
	fmt.Fprintln(w, "ID\tPREFIX\tBYTES\tEXPIRES IN\tLOCKED")
	for _, s := range sessions {
		locked := "no"
		if s.flag("locked") {
			locked = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", shown(s.text("id")), shownOrDash(s.text("prefix")),
			s.number("size"), duration(s.number("ttl_ms")), locked)
	}
}

func newSessionsRelease(a *asker) *cobra.Command {
	r := releaser{asker: a}
	var prefix string
	cmd := &cobra.Command{
		Use:   "release ID --force",
		Short: "Release the lock of a session by force",
		Long: `Take the lock of a session away from the request that holds it. Prints true, or prints false and exits with 3
when nobody held it. ID is a whole id, or its beginning as lists show it when no other locked session begins so. The
request is not stopped; what it writes counts until the lock is granted to another, and is refused from then on.`,
		Example:           "  coatcheck sessions release 3f9ac1 --force",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.release(cmd, "session.force_release", wire.Pairs{pair("id", beginning(args[0])), pair("prefix", prefix)})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "`PREFIX` of the session's keyspace (coatcheck.prefix)")
	r.addTo(cmd)
	return cmd
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// lister is a command that lists what the daemon holds.
type lister struct {
	asker
	limit int
}

// list asks for a list and prints it.
func (l *lister) list(cmd *cobra.Command, method string, params wire.Pairs, print func(io.Writer, []row)) error {
	answer, err := l.ask(cmd.Context(), method, append(params, pair("limit", l.limit)))
	if err != nil {
		return err
	}
	if l.json {
		return printJSON(cmd.OutOrStdout(), answer)
	}
	list := rows(answer)
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	print(table, list)
	if len(list) == l.limit {
		fmt.Fprintf(cmd.ErrOrStderr(), "coatcheck: these are the first %d (--limit)\n", l.limit)
	}
	return table.Flush()
}

func newLocks() *cobra.Command {
	var l lister
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "Show who holds which lock, or release one by force",
		Long: `Show the locks that are held, those of sessions included, one holder a line. Ids of sessions are credentials: their first
six characters are shown.`,
		Example: "  coatcheck locks --watch\n  coatcheck locks --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !watch {
				return l.list(cmd, "server.locks", nil, printLocks)
			}
			return l.watch(cmd, interval)
		},
	}
	l.addTo(cmd.PersistentFlags())
	l.addJSON(cmd.PersistentFlags())
	cmd.Flags().IntVar(&l.limit, "limit", 1000, "greatest `NUMBER` of locks")
	cmd.Flags().BoolVar(&watch, "watch", false, "show them again and again, until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "`TIME` between two looks with --watch")
	cmd.AddCommand(newLocksRelease(&l.asker))
	return cmd
}

// watch lists the locks until the command is interrupted. Each list begins on a clear screen, or else with its time.
func (l *lister) watch(cmd *cobra.Command, interval time.Duration) error {
	out := cmd.OutOrStdout()
	if interval <= 0 {
		return fmt.Errorf("--interval is %s; it must be above 0", interval)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		switch {
		case l.json:
		case isTerminal(out):
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		default:
			fmt.Fprintln(out, time.Now().Format(time.RFC3339))
		}
		if err := l.list(cmd, "server.locks", nil, printLocks); err != nil {
			return err
		}
		<-tick.C
	}
}

func printLocks(w io.Writer, locks []row) {
	slices.SortFunc(locks, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.text("kind"), b.text("kind")), cmp.Compare(a.text("bucket"), b.text("bucket")),
			cmp.Compare(a.text("name"), b.text("name")))
	})
	fmt.Fprintln(w, "KIND\tNAME\tBUCKET\tMODE\tPID\tSAPI\tSCRIPT\tHELD\tLEASE\tWAITERS\tFENCE")
	for _, l := range locks {
		for _, h := range l.rows("holders") {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\n",
				l.text("kind"), shown(l.text("name")), shownOrDash(l.text("bucket")), mode(l),
				h.number("pid"), shownOrDash(h.text("sapi")), shownOrDash(h.text("script")),
				duration(h.number("held_ms")), lease(h), l.number("waiters"), h.number("fence"))
		}
	}
}

// shownOrDash shows a name that may be empty.
func shownOrDash(s string) string {
	if s == "" {
		return "-"
	}
	return shown(s)
}

func mode(lock row) string {
	if lock.flag("shared") {
		return "shared"
	}
	return "exclusive"
}

// lease shows how long a lease lasts if nobody renews it.
func lease(holder row) string {
	if _, ends := holder["lease_left_ms"]; !ends {
		return "-"
	}
	return duration(holder.number("lease_left_ms"))
}

// releaser is a command that takes a lock away from its holder.
type releaser struct {
	*asker
	force bool
}

func (r *releaser) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.force, "force", false, "take it away from its holder, who goes on without it")
}

// release calls a method that releases by force, and prints whether the lock was held.
func (r *releaser) release(cmd *cobra.Command, method string, params wire.Pairs) error {
	if !r.force {
		return errors.New("its holder may be at work and is not stopped: another can then be at the same work; say --force to release it all the same")
	}
	answer, err := r.ask(cmd.Context(), method, params)
	if err != nil {
		return err
	}
	held, _ := answer.(bool)
	return errors.Join(r.print(cmd, pair("released", held), held), yes(held))
}

func newLocksRelease(a *asker) *cobra.Command {
	r := releaser{asker: a}
	var bucket string
	cmd := &cobra.Command{
		Use:   "release NAME --force",
		Short: "Release a lock by force",
		Long: `Take a named lock away from whoever holds it. Prints true, or prints false and exits with 3 when nobody
held it. The holder is not stopped; its token releases and renews nothing any more, and what it writes with its fence can be
told from the next holder's.`,
		Example:           "  coatcheck locks release nightly --force",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.release(cmd, "lock.force_release", wire.Pairs{pair("name", args[0]), pair("bucket", bucket)})
		},
	}
	cmd.Flags().StringVar(&bucket, "bucket", "", "`NAME` of the bucket that the lock is in")
	r.addTo(cmd)
	return cmd
}

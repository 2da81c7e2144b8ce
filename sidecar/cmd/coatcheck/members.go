package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

func newMembers() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the hosts of the cluster",
		Long: `Show the hosts of the cluster as this host sees them. A host is alive by gossip, ready when it can own something, and in the view
when it does. EPOCH is that of the view that it has accepted, CLOCK how far its clock is ahead, HEARD how long ago it was asked what it answered last,
and SHARDS how many of the 256 it owns. The last line is about this host.`,
		Example: "  coatcheck members\n  coatcheck members --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := a.ask(cmd.Context(), "cluster.members", nil)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), answer)
			}
			m, _ := answer.(map[string]any)
			return printMembers(cmd.OutOrStdout(), m)
		},
	}
	a.addTo(cmd.Flags())
	a.addJSON(cmd.Flags())
	return cmd
}

func printMembers(w io.Writer, cluster row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tID\tADDRESS\tALIVE\tREADY\tIN VIEW\tEPOCH\tCLOCK\tHEARD\tSHARDS")
	members := cluster.rows("members")
	slices.SortStableFunc(members, func(a, b row) int { return strings.Compare(a.text("name"), b.text("name")) })
	for _, m := range members {
		inView := word(m.flag("in_view"))
		if m.flag("cold") {
			inView = "without copies"
		}
		heard := "never"
		switch {
		case m.text("id") == cluster.text("node"):
			heard = "-"
		case m["heard_ms"] != nil:
			heard = duration(m.number("heard_ms")) + " ago"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\n", shown(m.text("name")), m.text("id"), m.text("address"),
			word(m.flag("alive")), word(m.flag("ready")), inView, m.number("epoch"),
			offset(m.number("clock_offset_ms")), heard, m.number("shards"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nthis host is %s of cluster %s: %s\n", cluster.text("node"), cluster.text("cluster"), placeOf(cluster))
	return err
}

// placeOf says what this host may do.
func placeOf(cluster row) string {
	says := fmt.Sprintf("view %d, it may not decide", cluster.number("epoch"))
	switch {
	case cluster.flag("leaving"):
		says = fmt.Sprintf("view %d, it has left or is leaving, and asks the others for its clients", cluster.number("epoch"))
	case cluster.flag("permitted"):
		says = fmt.Sprintf("view %d, it may decide", cluster.number("epoch"))
	}
	return fmt.Sprintf("%s, it serves %d shards", says, cluster.number("serving"))
}

// clusterLine is what status says of the cluster.
func clusterLine(c row) string {
	return fmt.Sprintf("%s: %d members, %d alive, %d ready; %s is at %s", c.text("id"), c.number("members"), c.number("alive"), c.number("ready"),
		shown(c.text("name")), placeOf(c))
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// offset shows a difference of clocks.
func offset(ms int64) string {
	if ms > 0 {
		return "+" + duration(ms)
	}
	return duration(ms)
}

// clusterChange is a command that asks for a change of the cluster.
type clusterChange struct {
	asker
	method string
	done   string // what is printed
}

func (c *clusterChange) command(cmd *cobra.Command, params func(args []string) wire.Pairs) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := c.ask(cmd.Context(), c.method, params(args)); err != nil {
			return err
		}
		return c.print(cmd, pair("done", true), c.done)
	}
	c.addTo(cmd.Flags())
	c.addJSON(cmd.Flags())
	return cmd
}

func newClusterJoin() *cobra.Command {
	c := clusterChange{method: "cluster.join", done: "this host joins; coatcheck members shows when it has its place"}
	return c.command(&cobra.Command{
		Use:   "join [HOST:PORT]",
		Short: "Have this host meet another, or come back after a leave",
		Long: `Have this host meet the one whose gossip is at HOST:PORT, as if that were one of cluster.join. Members are kept in the data
directory, so this is needed once. With or without HOST:PORT it takes back a leave.`,
		Example: "  coatcheck cluster join 10.0.0.1:7946\n  coatcheck cluster join",
		Args:    cobra.MaximumNArgs(1),
	}, func(args []string) (p wire.Pairs) {
		for _, address := range args {
			p = append(p, pair("address", address))
		}
		return p
	})
}

// leavePatience is longer than the daemon itself waits for the others.
const leavePatience = 90 * time.Second

func newClusterLeave() *cobra.Command {
	c := clusterChange{method: "cluster.leave", done: "the other hosts have taken over; this one asks them for its clients until it stops or joins again"}
	cmd := c.command(&cobra.Command{
		Use:   "leave",
		Short: "Have the other hosts take over what this one owns",
		Long: `Have the other hosts take over what this one owns, and wait for it. This host goes on serving its clients by asking the others, and
is still counted in majorities. When it stops it takes itself out of the cluster; join takes the leave back.

A daemon that is told to stop (SIGTERM) hands over by itself: leave is for doing that earlier, and for knowing that it was done. When it is interrupted, or
does not succeed within a minute, the host keeps its place.`,
		Example: "  coatcheck cluster leave && systemctl stop coatcheck",
		Args:    cobra.NoArgs,
	}, func([]string) wire.Pairs { return nil })
	cmd.Flags().Lookup("timeout").DefValue = leavePatience.String()
	c.timeout = leavePatience
	return cmd
}

func newClusterForget() *cobra.Command {
	c := clusterChange{method: "cluster.forget", done: "forgotten"}
	var force bool
	cmd := c.command(&cobra.Command{
		Use:   "forget ID",
		Short: "Take a host that is gone for good out of the cluster",
		Long: `Take a host that is gone for good out of the cluster, so that it is not counted in majorities any more. ID is as coatcheck members
shows it. A host that is alive is not forgotten: stop it, which has it leave.

A host that hears no majority forgets only with --force: when those that it does not hear are alive and only cut off, both sides could decide then.
Say it when you know that the host is stopped for good.`,
		Example: "  coatcheck cluster forget 5f0c8a12be94d7e3",
		Args:    cobra.ExactArgs(1),
	}, func(args []string) wire.Pairs { return wire.Pairs{pair("id", args[0]), pair("force", force)} })
	cmd.Flags().BoolVar(&force, "force", false, "also where this host hears no majority")
	return cmd
}

func newClusterReload() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon read its secrets and certificates again",
		Long: `Have the daemon read the files of cluster.secret_file and cluster.tls_* again, as SIGHUP does. Prints the fingerprints of the secrets that are in
use, the one that is used first in front: hosts with equal fingerprints have equal secrets. When a file cannot be used nothing is changed.`,
		Example: "  coatcheck cluster reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secrets, err := a.reload(cmd.Context())
			if err != nil {
				return err
			}
			return a.printSecrets(cmd, secrets)
		},
	}
	a.addTo(cmd.Flags())
	a.addJSON(cmd.Flags())
	return cmd
}

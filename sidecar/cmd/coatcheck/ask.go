package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// asker is a command that asks a running daemon.
type asker struct {
	socket  string
	timeout time.Duration
	json    bool
}

// addTo adds the flags by which the daemon is found.
func (a *asker) addTo(flags *pflag.FlagSet) {
	socket := cmp.Or(os.Getenv("COATCHECK_SOCKET"), config.Default().Socket)
	flags.StringVar(&a.socket, "socket", socket, "`PATH` of the daemon's socket (COATCHECK_SOCKET)")
	flags.DurationVar(&a.timeout, "timeout", 5*time.Second, "longest `TIME` to wait for an answer")
}

// addJSON adds the flag that makes the output fit for programs.
func (a *asker) addJSON(flags *pflag.FlagSet) {
	flags.BoolVar(&a.json, "json", false, "print JSON")
}

// dial connects. The caller closes the client.
func (a *asker) dial(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := client.Dial(ctx, a.socket, "coatcheck/"+version)
	if err != nil {
		return nil, unreachable(err)
	}
	return c, nil
}

// call sends one request and returns its result.
func (a *asker) call(ctx context.Context, c *client.Client, method string, params wire.Pairs) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	result, err := c.Call(ctx, method, params)
	return result, unanswered(err)
}

// ask connects, calls one method and returns its result.
func (a *asker) ask(ctx context.Context, method string, params wire.Pairs) (any, error) {
	c, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return a.call(ctx, c, method, params)
}

func pair(key string, value any) wire.Pair { return wire.Pair{Key: key, Value: value} }

func newPing() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:     "ping",
		Short:   "Ask the daemon for a sign of life",
		Long:    "Ask the daemon for a sign of life. Exits with 0 only when it gives one; meant for health checks.",
		Example: "  coatcheck ping --socket /run/coatcheck/coatcheck.sock",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := a.ask(cmd.Context(), "server.ping", nil); err != nil {
				return err
			}
			return a.print(cmd, pair("pong", true), "pong")
		},
	}
	a.addTo(cmd.Flags())
	a.addJSON(cmd.Flags())
	return cmd
}

func newStatus() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show how the daemon and its php-fpm pool are",
		Long:    "Show how the daemon is: sessions, locks, waiters, connections, the busy and idle workers of the php-fpm pool when the daemon was given its address (--fpm), and its cluster in a line.",
		Example: "  coatcheck status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := a.ask(cmd.Context(), "server.status", nil)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), result)
			}
			status, _ := result.(map[string]any)
			printStatus(cmd.OutOrStdout(), status)
			return nil
		},
	}
	a.addTo(cmd.Flags())
	a.addJSON(cmd.Flags())
	return cmd
}

// printStatus prints one fact a line, those of the pool behind its name.
func printStatus(w io.Writer, status map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(status)) {
		switch v := status[key].(type) {
		case map[string]any:
			if key == "cluster" {
				fmt.Fprintf(w, "%-14s %s\n", key, clusterLine(v))
				continue
			}
			for _, sub := range slices.Sorted(maps.Keys(v)) {
				fmt.Fprintf(w, "%-14s %v\n", key+"."+sub, v[sub])
			}
		case int64:
			if key == "uptime_ms" {
				fmt.Fprintf(w, "%-14s %s\n", "uptime", (time.Duration(v) * time.Millisecond).Round(time.Second))
				continue
			}
			fmt.Fprintf(w, "%-14s %d\n", key, v)
		default:
			fmt.Fprintf(w, "%-14s %v\n", key, v)
		}
	}
}

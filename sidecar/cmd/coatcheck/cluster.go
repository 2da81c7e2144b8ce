package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cluster",
		Short:   "Set up a cluster of hosts",
		Example: "  coatcheck cluster secret",
		RunE:    help,
	}
	cmd.AddCommand(newClusterSecret())
	return cmd
}

func newClusterSecret() *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Make a secret for the hosts of a cluster to share",
		Long: `Make a secret for the hosts of a cluster to share: 256 random bits.

It is printed and kept nowhere else. Put it into a file of mode 0600 on each host (cluster.secret_file). One that people
thought up is not as good: whoever can connect to a host can try guesses without asking it.`,
		Example: "  (umask 077; coatcheck cluster secret > /etc/coatcheck/cluster.secret)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), cluster.NewSecret())
			return failed(err)
		},
	}
}

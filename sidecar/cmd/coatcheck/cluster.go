package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cluster",
		Short:   "Set up and change a cluster of hosts",
		Long:    `Set up and change a cluster of hosts. What asks the running daemon is for root and the daemon's own user alone.`,
		Example: "  coatcheck cluster secret\n  coatcheck cluster leave",
		RunE:    help,
	}
	cmd.AddCommand(newClusterSecret(), newRotateSecret(), newClusterReload(), newClusterJoin(), newClusterLeave(), newClusterForget())
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

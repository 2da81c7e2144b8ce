package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

// How many days certificates last unless told otherwise. One that ends takes its host out of the cluster.
const (
	authorityDays = 7300
	nodeDays      = 3650
)

func newTLS() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tls",
		Short:   "Make certificates for the hosts of a cluster",
		Example: "  coatcheck tls ca /root/coatcheck-ca",
		RunE:    help,
	}
	cmd.AddCommand(newTLSCA(), newTLSNode())
	return cmd
}

func newTLSCA() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "ca DIR",
		Short: "Make a certificate authority in a directory",
		Long: `Make a certificate authority in a directory that exists: ca.pem and ca-key.pem. Nothing is overwritten.

ca.pem goes to every host (cluster.tls_ca). Whoever has ca-key.pem can make hosts of the cluster: keep it away from them.`,
		Example: "  coatcheck tls ca /root/coatcheck-ca",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cluster.MakeAuthority(args[0], time.Now(), lifetime(days)); err != nil {
				return failed(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(args[0], "ca.pem"))
			return failed(err)
		},
	}
	registerDays(cmd, &days, authorityDays)
	return cmd
}

func newTLSNode() *cobra.Command {
	var days int
	var name, id string
	cmd := &cobra.Command{
		Use:   "node DIR --name NAME --cluster ID",
		Short: "Make the certificate of a host by the authority in a directory",
		Long: `Make the certificate of a host by the authority in a directory: NAME.pem and NAME-key.pem, beside it. Nothing is overwritten.

They go to the host NAME (cluster.tls_cert, cluster.tls_key) and let it into the cluster ID, and into no other.`,
		Example: "  coatcheck tls node /root/coatcheck-ca --name web1 --cluster shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cluster.MakeNode(args[0], name, id, time.Now(), lifetime(days)); err != nil {
				return failed(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(args[0], name+".pem"))
			return failed(err)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the host: "+cluster.NameRule)
	cmd.Flags().StringVar(&id, "cluster", "", "`ID` of the cluster (cluster.cluster_id)")
	_ = cmd.MarkFlagRequired("name")    // fails only for a flag that is not there
	_ = cmd.MarkFlagRequired("cluster") // the same
	registerDays(cmd, &days, nodeDays)
	return cmd
}

func registerDays(cmd *cobra.Command, days *int, usual int) {
	cmd.Flags().IntVar(days, "days", usual, "how many days the certificate is good for")
}

func lifetime(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/resp"
)

// maxInput is more than any password has.
const maxInput = 4 << 10

func newRedisUser() *cobra.Command {
	return &cobra.Command{
		Use:   "redis-user NAME [TENANT]",
		Short: "Make a line of the file redis.users",
		Long: `Make a line of the file redis.users, which says who may use the Redis-protocol endpoint.

The password is read from standard input, so that it stands in no list of processes and no history; a newline at its end
does not belong to it. TENANT is whose values the user sees (default: default). The name default is for
clients that give a password alone.`,
		Example: "  coatcheck redis-user shop < password.txt >> /etc/coatcheck/redis.users",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tenant := "default"
			if len(args) == 2 {
				tenant = args[1]
			}
			if strings.ContainsAny(args[0]+tenant, ":\n") {
				return errors.New("neither NAME nor TENANT can have a colon or a newline")
			}
			password, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxInput))
			if err != nil {
				return failed(fmt.Errorf("read the password from standard input: %w", err))
			}
			password = bytes.TrimSuffix(password, []byte("\n"))
			if len(password) == 0 {
				return failed(errors.New("the password on standard input is empty"))
			}
			hash, err := resp.HashPassword(password)
			if err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s:%s:%s\n", args[0], tenant, hash)
			return failed(err)
		},
	}
}

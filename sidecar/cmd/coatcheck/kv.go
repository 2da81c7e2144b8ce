package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// keyspace is a command on the values of a bucket.
type keyspace struct {
	asker
	bucket string
}

func newKV() *cobra.Command {
	var k keyspace
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "Read and change values",
		Long: `Read and change values.

Values are binary: what is given as "-" is read from standard input as it is, a newline at
its end included, and get adds none. In JSON, bytes that are not UTF-8 are in "value_base64"
and "key_base64" instead of "value" and "key".`,
		Example: "  coatcheck kv set greeting hello --ttl 30s\n  coatcheck kv get greeting",
		Args:    cobra.NoArgs,
		RunE:    help,
	}
	k.addTo(cmd.PersistentFlags())
	k.addJSON(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&k.bucket, "bucket", "", "`NAME` of the bucket")
	cmd.AddCommand(k.get(), k.set(), k.del(), k.delIfEq(), k.incr(), k.ttl(), k.scan(), k.flush())
	return cmd
}

// do calls one method of the bucket.
func (k *keyspace) do(cmd *cobra.Command, method string, params ...wire.Pair) (any, error) {
	return k.ask(cmd.Context(), method, append(params, pair("bucket", k.bucket)))
}

// decide prints a yes or a no and exits accordingly.
func (k *keyspace) decide(cmd *cobra.Command, name string, answer any, err error) error {
	if err != nil {
		return err
	}
	done, _ := answer.(bool)
	return errors.Join(k.print(cmd, pair(name, done), done), yes(done))
}

func (k *keyspace) get() *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY",
		Short: "Print a value",
		Long:  "Print the bytes of a value, with nothing added. Exits with 3 when there is no such key.",
		Example: `  coatcheck kv get greeting
  coatcheck kv get page:front > front.html`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := k.do(cmd, "kv.get", pair("key", args[0]))
			if err != nil {
				return err
			}
			value, found := answer.([]byte)
			if k.json {
				err = printJSON(cmd.OutOrStdout(), foundEntries(found, bytesEntry("value", value)))
			} else {
				_, err = cmd.OutOrStdout().Write(value)
			}
			return errors.Join(err, yes(found))
		},
	}
}

// foundEntries says in JSON whether there is a key, and what about it.
func foundEntries(found bool, entry wire.Pair) wire.Pairs {
	if !found {
		return wire.Pairs{pair("found", false)}
	}
	return wire.Pairs{pair("found", true), entry}
}

// setOptions are the flags of set.
type setOptions struct {
	ttl             time.Duration
	nx, xx, keepTTL bool
	ifeq            string
}

func (k *keyspace) set() *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use:   "set KEY VALUE|-",
		Short: "Set a value, or set it under a condition",
		Long: `Set a value and print true, or print false and exit with 3 when the condition did not hold.

Setting a value drops the expiry that it had, unless --keepttl is given.`,
		Example: `  coatcheck kv set greeting hello --ttl 30s
  coatcheck kv set leader "$(hostname)" --nx --ttl 1m
  coatcheck kv set page:front - --ttl 10m < front.html`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := o.params(cmd.Flags())
			if err != nil {
				return err
			}
			value, err := k.value(cmd, args[1])
			if err != nil {
				return err
			}
			answer, err := k.do(cmd, "kv.set", append(params, pair("key", args[0]), pair("value", value))...)
			return k.decide(cmd, "set", answer, err)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.ttl, "ttl", 0, "`TIME` until the value expires; without it it does not")
	flags.BoolVar(&o.nx, "nx", false, "only when there is no such key")
	flags.BoolVar(&o.xx, "xx", false, "only when there is such a key")
	flags.StringVar(&o.ifeq, "ifeq", "", "only while the value is exactly `VALUE`")
	flags.BoolVar(&o.keepTTL, "keepttl", false, "keep the expiry that the value has")
	cmd.MarkFlagsMutuallyExclusive("nx", "xx", "ifeq")
	cmd.MarkFlagsMutuallyExclusive("ttl", "keepttl")
	return cmd
}

func (o *setOptions) params(flags *pflag.FlagSet) (wire.Pairs, error) {
	params, err := ttlParam(flags, o.ttl)
	for _, flag := range []struct {
		name  string
		given bool
	}{{"nx", o.nx}, {"xx", o.xx}, {"keepttl", o.keepTTL}} {
		if flag.given {
			params = append(params, pair(flag.name, true))
		}
	}
	if flags.Changed("ifeq") {
		params = append(params, pair("ifeq", []byte(o.ifeq)))
	}
	return params, err
}

// ttlParam returns the parameter for --ttl, or none when it was not given.
func ttlParam(flags *pflag.FlagSet, ttl time.Duration) (wire.Pairs, error) {
	if !flags.Changed("ttl") {
		return nil, nil
	}
	if ttl < time.Millisecond {
		return nil, fmt.Errorf("--ttl is %s; the least is 1ms (leave it out for a value that does not expire)", ttl)
	}
	return wire.Pairs{pair("ttl_ms", ttl.Milliseconds())}, nil
}

// maxValue is the length of the largest value that any daemon takes: the most that limits.max_frame can be.
const maxValue = 256 << 20

// value returns an argument's bytes, or standard input's for "-".
func (k *keyspace) value(cmd *cobra.Command, argument string) ([]byte, error) {
	if argument != "-" {
		return []byte(argument), nil
	}
	value, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxValue+1))
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("read the value from standard input: %w", err)}
	}
	if len(value) > maxValue {
		return nil, &exitError{exitTooLarge, fmt.Errorf("the value on standard input is above %d bytes, more than any daemon takes", maxValue)}
	}
	return value, nil
}

func (k *keyspace) del() *cobra.Command {
	return &cobra.Command{
		Use:               "del KEY...",
		Short:             "Remove values",
		Long:              "Remove values and print how many there were. That there were none is no failure.",
		Example:           "  coatcheck kv del greeting page:front",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := make([][]byte, 0, len(args))
			for _, key := range args {
				keys = append(keys, []byte(key))
			}
			answer, err := k.do(cmd, "kv.del", pair("keys", keys))
			if err != nil {
				return err
			}
			return k.print(cmd, pair("removed", number(answer)), number(answer))
		},
	}
}

func (k *keyspace) delIfEq() *cobra.Command {
	return &cobra.Command{
		Use:   "del-if-eq KEY VALUE|-",
		Short: "Remove a value while it is exactly this one",
		Long: `Remove a value while it is exactly this one, in one step: the release of a lock by the token that took it.
Prints true, or prints false and exits with 3. A value whose time is up never matches.`,
		Example: `  token=$(openssl rand -hex 16)
  coatcheck kv set report:lock "$token" --nx --ttl 5m && make report
  coatcheck kv del-if-eq report:lock "$token"`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := k.value(cmd, args[1])
			if err != nil {
				return err
			}
			answer, err := k.do(cmd, "kv.del_if_eq", pair("key", args[0]), pair("value", value))
			return k.decide(cmd, "removed", answer, err)
		},
	}
}

func (k *keyspace) incr() *cobra.Command {
	var by int64
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "incr KEY",
		Short: "Count up or down",
		Long: `Add to an integer and print the sum. A missing key counts from 0; an expiry is kept. A value that is not
a decimal 64-bit integer is refused, as is a sum that would not fit.`,
		Example:           "  coatcheck kv incr jobs:done\n  coatcheck kv incr stock:4711 --by -1",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := ttlParam(cmd.Flags(), ttl)
			if err != nil {
				return err
			}
			answer, err := k.do(cmd, "kv.incr_by", append(params, pair("key", args[0]), pair("delta", by))...)
			if err != nil {
				return err
			}
			return k.print(cmd, pair("value", number(answer)), number(answer))
		},
	}
	cmd.Flags().Int64Var(&by, "by", 1, "`NUMBER` to add; a negative one counts down")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "`TIME` until the value expires when the key is new")
	return cmd
}

func (k *keyspace) ttl() *cobra.Command {
	return &cobra.Command{
		Use:   "ttl KEY",
		Short: "Print how long a value has left",
		Long: `Print the seconds until a value expires, rounded up, or -1 when it does not expire. Exits with 3 when there
is no such key. With --json the answer is in milliseconds.`,
		Example:           "  coatcheck kv ttl greeting",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: k.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := k.do(cmd, "kv.ttl", pair("key", args[0]))
			if err != nil {
				return err
			}
			left := number(answer)
			found := left != ttlMissing
			switch {
			case k.json:
				err = printJSON(cmd.OutOrStdout(), foundEntries(found, pair("ttl_ms", left)))
			case left > 0:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), (left+999)/1000)
			case found:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), left)
			}
			return errors.Join(err, yes(found))
		},
	}
}

// ttlMissing is what kv.ttl answers for a missing key.
const ttlMissing = -2

func (k *keyspace) scan() *cobra.Command {
	var null bool
	cmd := &cobra.Command{
		Use:   "scan [PREFIX]",
		Short: "List keys",
		Long: `List the keys that begin with PREFIX, one a line and in no particular order. Keys that exist all the while are
listed; those that come or go meanwhile may be.`,
		Example:           "  coatcheck kv scan page:\n  coatcheck kv scan --null page: | xargs -0 -r coatcheck kv del",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var prefix string
			if len(args) > 0 {
				prefix = args[0]
			}
			if null && k.json {
				return errors.New("give at most one of --null and --json")
			}
			end := "\n"
			if null {
				end = "\x00"
			}
			return k.printKeys(cmd, prefix, end)
		},
	}
	cmd.Flags().BoolVarP(&null, "null", "0", false, "end each key with a NUL byte, for keys that hold newlines")
	return cmd
}

// printKeys prints the keys as they come; for JSON it gathers them into one list.
func (k *keyspace) printKeys(cmd *cobra.Command, prefix, end string) error {
	list := []wire.Pairs{}
	err := k.eachKeys(cmd, prefix, func(keys [][]byte) error {
		if !k.json {
			_, err := fmt.Fprint(cmd.OutOrStdout(), joined(keys, end))
			return err
		}
		for _, key := range keys {
			list = append(list, wire.Pairs{bytesEntry("key", key)})
		}
		return nil
	})
	if err != nil || !k.json {
		return err
	}
	return printJSON(cmd.OutOrStdout(), list)
}

// joined returns the keys with an end behind each.
func joined(keys [][]byte, end string) string {
	var b bytes.Buffer
	for _, key := range keys {
		b.Write(key)
		b.WriteString(end)
	}
	return b.String()
}

// eachKeys visits the bucket's keys, some at a time.
func (k *keyspace) eachKeys(cmd *cobra.Command, prefix string, visit func([][]byte) error) error {
	c, err := k.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	for cursor := int64(0); ; {
		answer, err := k.call(cmd.Context(), c, "kv.scan", wire.Pairs{
			pair("prefix", prefix), pair("cursor", cursor), pair("bucket", k.bucket),
		})
		if err != nil {
			return err
		}
		next, keys := scanned(answer)
		if err := visit(keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// scanned returns the parts of kv.scan's answer.
func scanned(answer any) (cursor int64, keys [][]byte) {
	parts, _ := answer.([]any)
	if len(parts) != 2 {
		return 0, nil
	}
	list, _ := parts[1].([]any)
	for _, e := range list {
		if key, ok := e.([]byte); ok {
			keys = append(keys, key)
		}
	}
	return number(parts[0]), keys
}

func (k *keyspace) flush() *cobra.Command {
	return &cobra.Command{
		Use:     "flush",
		Short:   "Remove every value of the bucket",
		Long:    "Remove every value of the bucket at once, and print true. Sessions, locks and other buckets stay.",
		Example: "  coatcheck kv flush --bucket pages",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := k.do(cmd, "kv.flush")
			return k.decide(cmd, "flushed", answer, err)
		},
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// files is what the commands on a data directory share.
type files struct {
	json    bool
	keyFile string
}

func (f *files) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.keyFile, "key-file", "", "`FILE` of the keys that the journal is sealed with (journal.key_file)")
}

// keys returns the keys of the file, or nil when none is named.
func (f *files) keys() (*journal.Keys, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	return journal.LoadKeys(f.keyFile)
}

func newJournal() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "journal",
		Short:   "Check or repair a data directory",
		Example: "  coatcheck journal check /var/lib/coatcheck",
		RunE:    help,
	}
	cmd.AddCommand(newJournalCheck(), newJournalRepair())
	return cmd
}

func newJournalCheck() *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Read a data directory as a start would, without changing it",
		Long: `Read a data directory as a start would, without changing it.

No daemon may use it meanwhile; check a copy of one that is in use. It takes as much memory as the daemon would. Exits with
1 when a start would refuse the directory, and says where the damage is and how many records are before it.`,
		Example: "  coatcheck journal check /var/lib/coatcheck",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys()
			if err != nil {
				return failed(err)
			}
			r, err := journal.Check(args[0], keys)
			if err != nil {
				return failed(err)
			}
			return f.show(cmd, args[0], r)
		},
	}
	f.register(cmd)
	return cmd
}

// show prints what a check found.
func (f *files) show(cmd *cobra.Command, dir string, r journal.Report) error {
	if f.json {
		err := printJSON(cmd.OutOrStdout(), wire.Pairs{
			pair("ok", r.Damage == nil), pair("files", r.Files), pair("records", r.Records),
			pair("torn", place(r.Torn)), pair("damage", place(r.Damage)),
		})
		if err == nil && r.Damage != nil {
			err = &exitError{code: exitFailed}
		}
		return err
	}
	if d := r.Damage; d != nil {
		return failed(fmt.Errorf("%s, offset %d: %w; %d records are before it; to keep them and go on: coatcheck journal repair %s",
			d.File, d.Offset, d.What, r.Records, dir))
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %d files, %d records, no damage\n", dir, r.Files, r.Records)
	if d := r.Torn; d != nil {
		fmt.Fprintf(out, "%s, offset %d: the end was cut off (%v); a start drops it\n", d.File, d.Offset, d.What)
	}
	return nil
}

// place says where damage is, as JSON.
func place(d *journal.Damage) any {
	if d == nil {
		return nil
	}
	return wire.Pairs{pair("file", d.File), pair("offset", d.Offset), pair("what", d.What.Error())}
}

func newJournalRepair() *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Keep what is before the damage in a data directory, so that a start accepts it",
		Long: `Keep what is before the damage in a data directory, so that a start accepts it, and say what was done.

What is taken out stays in the directory, in files whose names end in .lost. Changes that came after the damage are
gone from then on, sessions and locks among them. A damaged snapshot cannot be repaired.`,
		Example: "  coatcheck journal repair /var/lib/coatcheck",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := f.keys()
			if err != nil {
				return failed(err)
			}
			did, err := journal.Repair(args[0], keys)
			if f.json {
				if did == nil {
					did = []string{}
				}
				printJSON(cmd.OutOrStdout(), wire.Pairs{pair("did", did)})
				return failed(err)
			}
			for _, what := range did {
				fmt.Fprintln(cmd.OutOrStdout(), what)
			}
			if err == nil && len(did) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "there is nothing to repair")
			}
			return failed(err)
		},
	}
	f.register(cmd)
	return cmd
}

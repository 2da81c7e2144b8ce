package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

// reload has the daemon read its secrets again and returns their fingerprints.
func (a *asker) reload(ctx context.Context) ([]string, error) {
	answer, err := a.ask(ctx, "cluster.reload", nil)
	if err != nil {
		return nil, err
	}
	m, _ := answer.(map[string]any)
	list, _ := m["secrets"].([]any)
	secrets := make([]string, 0, len(list))
	for _, s := range list {
		secrets = append(secrets, fmt.Sprintf("%s", s))
	}
	return secrets, nil
}

// printSecrets prints fingerprints of secrets.
func (a *asker) printSecrets(cmd *cobra.Command, secrets []string) error {
	return a.print(cmd, pair("secrets", secrets), "secrets in use: "+strings.Join(secrets, " "))
}

// A step of changing a secret takes the secrets of a file and returns those that are to be there.
var rotateSteps = map[string]func(secrets []string) ([]string, error){
	"add": func(s []string) ([]string, error) {
		if len(s) != 1 {
			return nil, fmt.Errorf("there are %d secrets where one is to be: an earlier change was not ended by drop", len(s))
		}
		return append(s, cluster.NewSecret()), nil
	},
	"use": func(s []string) ([]string, error) {
		if len(s) != 2 {
			return nil, fmt.Errorf("there are %d secrets where two are to be: add makes the second one", len(s))
		}
		return []string{s[1], s[0]}, nil
	},
	"drop": func(s []string) ([]string, error) {
		if len(s) != 2 {
			return nil, fmt.Errorf("there are %d secrets where two are to be: the old one behind the new one", len(s))
		}
		return s[:1], nil
	},
}

func newRotateSecret() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:   "rotate-secret add|use|drop FILE",
		Short: "Do one step of changing the secret of a cluster that serves",
		Long: `Do one step of changing the secret in FILE (cluster.secret_file) of a cluster that serves, on one host, and have its daemon read the file
again. Then copy FILE to every other host and say "coatcheck cluster reload" there, before the next step:

  add   a new secret behind the one in use: all hosts accept both
  use   the new one comes in front: all hosts use it, and accept both
  drop  the old one is taken out

Each reload prints fingerprints. When those of all hosts are equal the next step may be made; a host that was left out is shut out by drop at the
latest. If the daemon refuses the file it is put back as it was.`,
		Example:   "  coatcheck cluster rotate-secret add /etc/coatcheck/cluster.secret",
		ValidArgs: []string{"add", "use", "drop"},
		Args:      cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			step := rotateSteps[args[0]]
			if step == nil {
				return fmt.Errorf("%q is no step: add, use or drop", args[0])
			}
			secrets, err := a.rotate(cmd.Context(), args[1], step)
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

// rotate makes a step in a file of secrets and has the daemon use it. What the daemon does not take is taken back.
func (a *asker) rotate(ctx context.Context, path string, step func([]string) ([]string, error)) ([]string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, failed(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return nil, failed(err)
	}
	after, count, err := rewritten(before, step)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", path, err))
	}
	if err := replace(path, after); err != nil {
		return nil, failed(err)
	}
	secrets, err := a.reload(ctx)
	if err == nil && len(secrets) != count {
		err = failed(errors.New("the daemon has read another file (cluster.secret_file)"))
	}
	if exit, ok := errors.AsType[*exitError](err); ok && exit.code != exitUnknown {
		return nil, &exitError{exit.code, errors.Join(fmt.Errorf("%s is as it was: %w", path, exit.err), replace(path, before))}
	}
	return secrets, err
}

// rewritten returns a file of secrets after a step, and how many it has. Comments go to its head.
func rewritten(file []byte, step func([]string) ([]string, error)) ([]byte, int, error) {
	var out bytes.Buffer
	var secrets []string
	for line := range bytes.Lines(file) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '#' {
			fmt.Fprintf(&out, "%s\n", line)
		} else if len(line) > 0 {
			secrets = append(secrets, string(line))
		}
	}
	secrets, err := step(secrets)
	for _, s := range secrets {
		fmt.Fprintln(&out, s)
	}
	return out.Bytes(), len(secrets), err
}

// replace puts a file with the owner and the mode of the one at path in its place, all at once.
func replace(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := prepare(f, info, content); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return os.Rename(f.Name(), path)
}

func prepare(f *os.File, like fs.FileInfo, content []byte) error {
	if owner, ok := like.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if err := f.Chmod(like.Mode().Perm()); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

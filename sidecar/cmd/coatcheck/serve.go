package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/app"
	"github.com/coatcheck/coatcheck/sidecar/config"
)

func newServe() *cobra.Command {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	given := config.RegisterFlags(flags)
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon until SIGTERM or SIGINT",
		Long: `Run the daemon until SIGTERM or SIGINT. On SIGHUP it reads the secrets and certificates of its cluster again.

Settings come from --config, then from COATCHECK_* variables, then from flags; each
overrides the ones before it. docs/config.md lists them all.`,
		Example: "  coatcheck serve --socket /run/coatcheck/coatcheck.sock --admin 127.0.0.1:8132",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, file, given)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "`FILE` of settings in TOML (COATCHECK_CONFIG)")
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}

func serve(cmd *cobra.Command, file string, given map[string]string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hangUp := make(chan os.Signal, 1) // from the beginning: it ends whoever does not want it
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	cfg, warnings, err := config.Load(file, os.Environ(), given)
	if err != nil {
		return failed(err)
	}
	log := newLog(cmd.ErrOrStderr(), cfg)
	for _, w := range warnings {
		log.Warn(w)
	}
	a, err := app.Start(cfg, version, log)
	if err != nil {
		return failed(err)
	}
	defer a.Stop()
	for {
		select {
		case <-ctx.Done():
			log.Info("shutting down", "drain_timeout", cfg.DrainTimeout)
			return nil
		case err := <-a.Failed():
			return failed(fmt.Errorf("a part of the daemon failed: %w", err))
		case <-hangUp:
			a.Reload()
		}
	}
}

func newLog(w io.Writer, cfg config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func newCheckConfig() *cobra.Command {
	return &cobra.Command{
		Use:     "check-config FILE",
		Short:   "Check a file of settings",
		Long:    "Check a file of settings by itself, without the environment or a running daemon. Exits with 1 when it has a fault.",
		Example: "  coatcheck check-config /etc/coatcheck.toml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := config.Check(cmd.OutOrStdout(), args[0]); code != 0 {
				return &exitError{code, errors.New("the file has faults")}
			}
			return nil
		},
	}
}

package fpm

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
)

// Config says which pool serves which document root, and within which limits. The zero value of
// every field but Address and Docroot means its default.
type Config struct {
	// Address is where php-fpm listens: "unix:/path/to.sock" or "host:port".
	Address string

	// Docroot is the directory that holds the scripts and static files. Symlinks in it are resolved
	// once, when the Front is made. php-fpm must see it under the same path.
	Docroot string

	// Fallback is the script for paths that name no file, such as "/index.php" for WordPress and
	// Laravel. Empty: such a path is a 404.
	Fallback string

	// MaxBody is the largest request body, in bytes; more is answered with 413. Default 32 MiB. PHP's post_max_size
	// limits it further.
	MaxBody int64

	// BodyTimeout is how long a request body may take to arrive. Default 5 minutes.
	BodyTimeout time.Duration

	// DialTimeout is how long a connection to php-fpm may take. Default 2 s.
	DialTimeout time.Duration

	// Timeout is the longest silence of php-fpm, before its first byte and between any two, and
	// the longest time a visitor may take to accept one piece of the answer. Default 60 s. A script that
	// works in silence for longer needs a higher value.
	Timeout time.Duration

	// MaxHeaderLine is the longest header line a script may send, in bytes. Default 16 KiB. Each request
	// in flight holds a buffer of this size.
	MaxHeaderLine int

	// TempDir is where bodies above 256 KiB are spooled. Default os.TempDir().
	TempDir string

	// Logger gets what PHP writes to its error stream and one line for each failed request.
	// Default slog.Default().
	Logger *slog.Logger
}

// withDefaults returns c with every unset field at its default.
func (c Config) withDefaults() Config {
	setDefault(&c.MaxBody, 32<<20)
	setDefault(&c.BodyTimeout, 5*time.Minute)
	setDefault(&c.DialTimeout, 2*time.Second)
	setDefault(&c.Timeout, time.Minute)
	setDefault(&c.MaxHeaderLine, 16<<10)
	setDefault(&c.TempDir, os.TempDir())
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// check refuses limits that no request could meet.
func (c Config) check() error {
	if c.MaxBody < 0 || c.BodyTimeout < 0 || c.DialTimeout < 0 || c.Timeout < 0 {
		return errors.New("fpm: MaxBody, BodyTimeout, DialTimeout and Timeout must not be negative")
	}
	if c.MaxHeaderLine < 256 || c.MaxHeaderLine > maxResponseHead {
		return fmt.Errorf("fpm: MaxHeaderLine is %d; give 256 to %d bytes", c.MaxHeaderLine, maxResponseHead)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// parseAddress splits "unix:/path" or "host:port" into what net.Dial takes.
func parseAddress(address string) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" {
			return "", "", fmt.Errorf("fpm: address %q names no socket; give unix:/path/to/php-fpm.sock", address)
		}
		return "unix", path, nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return "", "", fmt.Errorf("fpm: address %q is neither unix:/path nor host:port", address)
	}
	return "tcp", address, nil
}

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// limit is how long a test waits for what must happen, on a busy machine.
const limit = 20 * time.Second

var silent = slog.New(slog.DiscardHandler)

// settings are those of an app whose sockets and data are in dir.
func settings(dir string) config.Config {
	cfg := config.Default()
	cfg.Socket = filepath.Join(dir, "s")
	cfg.Admin = config.Addr{Network: "unix", Address: filepath.Join(dir, "admin")}
	return cfg
}

func start(t *testing.T, cfg config.Config) *App {
	t.Helper()
	a, err := Start(cfg, "test", silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Stop)
	return a
}

func dial(t *testing.T, cfg config.Config) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), cfg.Socket, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c *client.Client, method string, params ...any) any {
	t.Helper()
	var pairs wire.Pairs
	for i := 0; i < len(params); i += 2 {
		pairs = append(pairs, wire.Pair{Key: params[i].(string), Value: params[i+1]})
	}
	result, err := c.Call(t.Context(), method, pairs)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

// page gets an admin page.
func page(t *testing.T, cfg config.Config, path string) (int, string) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", cfg.Admin.Address)
		},
	}}
	r, err := web.Get("http://admin" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// gone fails the test unless nothing is at a path.
func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}

func TestThreeAppsInOneProcess(t *testing.T) {
	var apps []*App
	var cfgs []config.Config
	for i := range 3 {
		cfg := settings(t.TempDir())
		if i == 2 {
			cfg.Data = filepath.Join(filepath.Dir(cfg.Socket), "data")
		}
		cfgs = append(cfgs, cfg)
		apps = append(apps, start(t, cfg))
		ask(t, dial(t, cfg), "kv.set", "key", "who", "value", fmt.Sprint(i))
	}
	for i, cfg := range cfgs {
		if got := ask(t, dial(t, cfg), "kv.get", "key", "who"); string(got.([]byte)) != fmt.Sprint(i) {
			t.Errorf("app %d has the value of %s", i, got)
		}
		if code, body := page(t, cfg, "/readyz"); code != 200 {
			t.Errorf("app %d is not ready: %s", i, body)
		}
		_, status := page(t, cfg, "/v1/status")
		var s map[string]any
		if err := json.Unmarshal([]byte(status), &s); err != nil || s["values"] != 1.0 || s["version"] != "test" {
			t.Errorf("app %d: %s", i, status)
		}
	}
	apps[1].Stop()
	gone(t, cfgs[1].Socket)
	gone(t, cfgs[1].Admin.Address)
	for _, i := range []int{0, 2} {
		ask(t, dial(t, cfgs[i]), "server.ping")
	}
	start(t, cfgs[1])
	if got := ask(t, dial(t, cfgs[1]), "kv.get", "key", "who"); got != nil {
		t.Errorf("an app without data remembers %s", got)
	}
}

func TestAFailedStartIsTakenBack(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	taken := config.Addr{Network: "tcp", Address: occupied.Addr().String()}
	for what, c := range map[string]struct {
		spoil func(t *testing.T, cfg *config.Config)
		says  string
	}{
		"the socket's directory is missing": {func(_ *testing.T, c *config.Config) { c.Socket = filepath.Join(c.Socket, "no", "dir") }, "its directory does not exist; make it"},
		"the admin address is taken":        {func(_ *testing.T, c *config.Config) { c.Admin = taken }, "listen for admin"},
		"a file is where admin should be": {func(t *testing.T, c *config.Config) {
			if err := os.WriteFile(c.Admin.Address, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a socket"},
		"the data directory is a file": {func(t *testing.T, c *config.Config) {
			c.Data = filepath.Join(filepath.Dir(c.Socket), "data")
			if err := os.WriteFile(c.Data, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "data"},
		"the Redis address is taken": {func(_ *testing.T, c *config.Config) { c.RESP = taken }, "listen for resp"},
		"the front's address is taken": {func(t *testing.T, c *config.Config) {
			c.HTTP, c.Docroot = taken, t.TempDir()
			c.FPM = config.Addr{Network: "unix", Address: filepath.Join(filepath.Dir(c.Socket), "fpm")}
		}, "listen for http"},
	} {
		t.Run(what, func(t *testing.T) {
			good := settings(t.TempDir())
			cfg := good
			c.spoil(t, &cfg)
			a, err := Start(cfg, "test", silent)
			if err == nil {
				a.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			gone(t, good.Socket)
			if cfg.Admin == good.Admin && what != "a file is where admin should be" {
				gone(t, good.Admin.Address)
			}
			os.Remove(good.Admin.Address)
			start(t, good) // nothing of the failed start is in the way
			ask(t, dial(t, good), "server.ping")
		})
	}
}

func TestStopTwice(t *testing.T) {
	cfg := settings(t.TempDir())
	a := start(t, cfg)
	a.Stop()
	other := start(t, cfg) // on the same paths
	a.Stop()
	ask(t, dial(t, cfg), "server.ping")
	other.Stop()
}

func TestPartsStopInTheRightOrder(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.Data = filepath.Join(filepath.Dir(cfg.Socket), "data")
	cfg.RESP = config.Addr{Network: "unix", Address: filepath.Join(filepath.Dir(cfg.Socket), "resp")}
	a := start(t, cfg)
	var order []string
	for _, u := range slices.Backward(a.undos) {
		order = append(order, u.name)
	}
	for _, c := range []struct{ first, then, why string }{
		{"drain", "housekeeping", "what is committed while draining is made durable each second too"},
		{"drain", "admin", "monitors see that it drains"},
		{"drain", "socket", "holders have time to commit"},
		{"socket", "journal", "what is committed last is kept"},
		{"housekeeping", "journal", "nobody ticks a closed journal"},
		{"resp", "journal", "what is written last is kept"},
	} {
		i, j := slices.Index(order, c.first), slices.Index(order, c.then)
		if i < 0 || j < 0 || i > j {
			t.Errorf("parts stop in the order %v; %s must stop before %s: %s", order, c.first, c.then, c.why)
		}
	}
}

func TestStopLetsHoldersFinishAndTellsMonitors(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.DrainTimeout = limit
	a := start(t, cfg)
	holder := dial(t, cfg)
	o := ask(t, holder, "session.open", "id", "abc", "token", "t")
	stopped := make(chan struct{})
	go func() {
		a.Stop()
		close(stopped)
	}()
	until(t, "it drains", func() bool { code, _ := page(t, cfg, "/readyz"); return code == 503 })
	if code, _ := page(t, cfg, "/healthz"); code != 200 {
		t.Errorf("healthz while draining: %d", code)
	}
	_, body := page(t, cfg, "/v1/locks")
	if !strings.Contains(body, `"kind":"session"`) {
		t.Errorf("locks while draining: %s", body)
	}
	select {
	case <-stopped:
		t.Fatal("it stopped while a lock was held")
	default:
	}
	c := ask(t, holder, "session.commit", "id", "abc", "token", "t", "fence", o.(map[string]any)["fence"], "data", "x", "ttl_ms", 9999, "release", true)
	if c.(map[string]any)["stored"] != true {
		t.Errorf("the commit while draining: %v", c)
	}
	select {
	case <-stopped:
	case <-time.After(limit):
		t.Fatal("it does not stop although nobody holds a lock")
	}
	gone(t, cfg.Socket)
	gone(t, cfg.Admin.Address)
}

func TestStopDoesNotWaitForHoldersForEver(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.DrainTimeout = 30 * time.Millisecond
	a := start(t, cfg)
	holder := dial(t, cfg)
	ask(t, holder, "session.open", "id", "abc", "token", "t")
	a.Stop()
	if _, err := holder.Call(t.Context(), "server.ping", nil); err == nil {
		t.Error("the holder's connection outlived the daemon")
	}
}

func TestPromise6AcknowledgedMeansKept(t *testing.T) {
	cfg := settings(t.TempDir())
	cfg.Data = filepath.Join(filepath.Dir(cfg.Socket), "data")
	cfg.DrainTimeout = 30 * time.Millisecond
	a := start(t, cfg)
	c := dial(t, cfg)
	ask(t, c, "session.commit", "id", "abc", "data", "kept", "ttl_ms", 60_000)
	held := ask(t, c, "lock.acquire", "name", "l", "token", "t")
	a.Stop()
	start(t, cfg)
	c = dial(t, cfg)
	if o := ask(t, c, "session.open", "id", "abc").(map[string]any); fmt.Sprintf("%s", o["data"]) != "kept" {
		t.Errorf("the session after a restart: %v", o)
	}
	if again := ask(t, c, "lock.acquire", "name", "l", "token", "t"); fmt.Sprint(again.(map[string]any)["fence"]) != fmt.Sprint(held.(map[string]any)["fence"]) {
		t.Errorf("the lock after a restart: %v, before it %v", again, held)
	}
}

func TestTheHouseIsKept(t *testing.T) {
	cfg := settings(t.TempDir())
	a := start(t, cfg)
	c := dial(t, cfg)
	for i := range 500 {
		ask(t, c, "kv.set", "key", fmt.Sprint(i), "value", "v", "ttl_ms", 1)
	}
	until(t, "what has expired is dropped", func() bool { return a.stats().Values == 0 })
}

func TestMetricsThatOperatorsNeed(t *testing.T) {
	cfg := settings(t.TempDir())
	start(t, cfg)
	c, other := dial(t, cfg), dial(t, cfg)
	o := ask(t, c, "session.open", "id", "abc", "token", "t")
	other.Call(t.Context(), "session.open", wire.Pairs{{Key: "id", Value: "abc"}, {Key: "token", Value: "u"}, {Key: "wait_ms", Value: 1}})
	ask(t, other, "session.destroy", "id", "abc")
	c.Call(t.Context(), "session.commit", wire.Pairs{{Key: "id", Value: "abc"}, {Key: "token", Value: "t"}, {Key: "fence", Value: o.(map[string]any)["fence"]}, {Key: "data", Value: "x"}, {Key: "ttl_ms", Value: 5}, {Key: "release", Value: true}})
	_, body := page(t, cfg, "/metrics")
	for _, line := range []string{
		`coatcheck_requests_total{method="session.open",outcome="ok"} 1`,
		`coatcheck_requests_total{method="session.open",outcome="busy"} 1`,
		`coatcheck_requests_total{method="session.commit",outcome="refused"} 1`,
		`coatcheck_session_writes_refused_total{reason="destroyed"} 1`,
		`coatcheck_lock_wait_seconds_count{outcome="busy"} 1`,
		"coatcheck_lock_hold_seconds_count 1",
		"coatcheck_connections 2",
		"coatcheck_locks 0",
		"coatcheck_sessions 0",
		"go_goroutines ",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("/metrics does not have %q", line)
		}
	}
}

func TestTheLogTellsThatItIsReady(t *testing.T) {
	var b bytes.Buffer
	cfg := settings(t.TempDir())
	a, err := Start(cfg, "test", slog.New(slog.NewTextHandler(&b, nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.Stop()
	if !strings.Contains(b.String(), "msg=ready version=test socket="+cfg.Socket) {
		t.Errorf("%s", b.String())
	}
}

// TestTheAdminPagesAreForOperators: their socket is root's and the daemon's user's, and the log warns where it cannot be so.
func TestTheAdminPagesAreForOperators(t *testing.T) {
	const warning = "every user of this machine can read the admin pages"
	for what, c := range map[string]struct {
		unix, tenants, warns bool
	}{"a Unix socket": {true, true, false}, "TCP for one tenant": {false, false, false}, "TCP for several": {false, true, true}} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			cfg := settings(dir)
			if !c.unix {
				cfg.Admin = config.Addr{Network: "tcp", Address: "127.0.0.1:0"}
			}
			if c.tenants {
				cfg.Tenants = []config.Tenant{{Name: "shop", Socket: filepath.Join(dir, "shop"), Mode: 0o660}}
			}
			var log bytes.Buffer
			a, err := Start(cfg, "test", slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Stop()
			if c.unix {
				if info, err := os.Stat(cfg.Admin.Address); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the socket's mode is %v, %v", info.Mode(), err)
				}
			}
			a.Stop()
			if got := strings.Contains(log.String(), warning); got != c.warns {
				t.Errorf("it warns: %v, want %v: %s", got, c.warns, &log)
			}
			if c.unix {
				gone(t, cfg.Admin.Address)
			}
		})
	}
}

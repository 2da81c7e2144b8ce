package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/fpm"
)

// pool is a host's php-fpm, whose workers use the host's daemon.
type pool struct {
	process *process
	front   *fpm.Front
}

const poolWorkers = 3

// startPool starts a php-fpm and waits until it answers.
func (h *host) startPool() {
	g, t := h.team, h.team.t
	t.Helper()
	address := filepath.Join(h.dir, "fpm.sock")
	ini, conf := filepath.Join(h.dir, "php.ini"), filepath.Join(h.dir, "fpm.conf")
	g.write(ini, strings.Join([]string{
		"extension=" + theStage.extension, "session.save_handler=coatcheck", `session.save_path="unix://` + h.socket() + `"`,
		"coatcheck.socket=" + h.socket(), "coatcheck.lock_failure=fail", fmt.Sprint("coatcheck.lock_lease=", lease.Seconds()), "coatcheck.lock_wait=5",
		"auto_prepend_file=" + filepath.Join(theStage.scripts, "prepend.php"),
		"output_buffering=On", "error_reporting=E_ALL", "display_errors=On", "html_errors=Off", "log_errors=Off",
		"session.gc_probability=0", "memory_limit=256M", "opcache.enable=Off",
	}, "\n")+"\n", 0o644)
	lines := []string{
		"[global]", "error_log=" + filepath.Join(h.dir, "fpm.log"), "daemonize=no", "rlimit_core=0",
		"[cluster]", "listen=" + address, "listen.mode=0600", "listen.backlog=511",
		"pm=static", fmt.Sprintf("pm.max_children=%d", poolWorkers), "ping.path=/ping", "catch_workers_output=yes",
	}
	if w := theStage.worker; w != nil {
		lines = append(lines, "user="+w.Username, "group="+w.Gid)
	}
	g.write(conf, strings.Join(lines, "\n")+"\n", 0o644)
	process, err := start(filepath.Join(h.dir, "fpm.out"), theStage.fpm, "-F", "-y", conf, "-c", ini)
	if err != nil {
		t.Fatal(err)
	}
	front, err := fpm.NewFront(fpm.Config{Address: "unix:" + address, Docroot: theStage.scripts, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h.pool = &pool{process, front}
	ping, err := fpm.NewPool(fpm.PoolConfig{Address: "unix:" + address})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "php-fpm answers its ping", func() (bool, string) {
		err := ping.Ping(context.Background())
		return err == nil, fmt.Sprint(err, "\n", tail(filepath.Join(h.dir, "fpm.log")))
	})
}

// page is what a script answered.
type page struct {
	status int
	body   string
	facts  map[string]any
}

// get runs a script on the host, as a visitor with a session.
func (h *host) get(session, script string) page {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+script, nil)
	r.Header.Set("Cookie", "PHPSESSID="+session)
	w := httptest.NewRecorder()
	h.pool.front.ServeHTTP(w, r)
	p := page{status: w.Code, body: w.Body.String()}
	for line := range strings.Lines(p.body) {
		if strings.HasPrefix(line, "{") {
			json.Unmarshal([]byte(line), &p.facts)
		}
	}
	return p
}

// number returns a fact that is a number, or -1.
func (p page) number(name string) int64 {
	if n, ok := p.facts[name].(float64); ok {
		return int64(n)
	}
	return -1
}

// warning returns PHP's first complaint, or "".
func (p page) warning() string {
	for line := range strings.Lines(p.body) {
		for _, kind := range []string{"Warning: ", "Notice: ", "Fatal error: ", "Deprecated: "} {
			if strings.HasPrefix(line, kind) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// ok says that the script ran to its end without a complaint, and stored.
func (p page) ok() bool {
	return p.status == http.StatusOK && p.warning() == "" && p.facts["started"] == true && p.facts["closed"] == true
}

func (p page) String() string {
	return fmt.Sprintf("status %d: %s", p.status, p.body[:min(len(p.body), 600)])
}

// see counts by PHP once. Times are since base, by the one clock that all processes share. PHP is told no fence; the time of the
// grant has the same order.
func (h *host) see(session string, base time.Duration) visit {
	p := h.get(session, "cluster_count.php")
	one := visit{host: h.index, what: stored}
	if p.facts["started"] == true {
		one.granted, one.storing = time.Duration(p.number("granted_ns"))-base, time.Duration(p.number("storing_ns"))-base
		one.fence = int64(one.granted)
		one.wrote = int(p.number("n"))
		one.read = one.wrote - 1
	}
	if !p.ok() {
		one.what, one.why = p.trouble(), p.String()
	}
	return one
}

// trouble says what PHP's complaint means.
func (p page) trouble() outcome {
	w := p.warning()
	has := func(words string) bool { return strings.Contains(w, words) }
	switch {
	case p.status != http.StatusOK || p.facts == nil || w == "":
		return odd
	case has("superseded"):
		return superseded
	case has("is busy"):
		return busy
	case has("view"), has("majority"), has("shutting down"), has("starting"):
		return notDone
	case p.facts["started"] == true: // whatever became of the daemon or the owner, the write may have been done
		return unknownCommit
	case has("no such socket"), has("nobody listens"), has("onnect"):
		return away
	case has("unknown"), has("answer"):
		return unknownOpen
	}
	return odd
}

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestHealthAndReadinessAnswer(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	for _, page := range []string{"/healthz", "/readyz"} {
		status, body := h.page(page)
		check(t, status == http.StatusOK && body != "", "%s answered %d: %s", page, status, body)
	}
	status, _ := h.page("/no-such-page")
	check(t, status == http.StatusNotFound, "an unknown page answered %d", status)
}

func TestTheListOfLocksSaysWhoHoldsThem(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	held := v.begin("count.php?until=" + g.path)
	holder := h.awaitHolder(v)
	check(t, len(holder.Token) == len(short("123456789")) && holder.Fence > 0, "token and fence: %v", holder)
	check(t, strings.HasSuffix(holder.Script, "/count.php"), "script: %v", holder)
	g.open()
	check(t, held.end(t).mustBeOK(t).number("pid") == holder.PID, "the pid is not the worker's: %v", holder)
	h.awaitNoLocks()
}

func TestMetricsCountRequestsWaitsHoldsAndRefusals(t *testing.T) {
	t.Parallel()
	h, v, a, b, aGate, bGate := overrun(t)
	met := v.get("count.php?ini[coatcheck.lock_wait]=0.1&ini[coatcheck.lock_failure]=fail")
	check(t, met.fact("started") == false, "the lock is not held: %s", met)
	aGate.open()
	a.end(t).mustWarn(t, "superseded")
	bGate.open()
	b.end(t).mustBeOK(t)
	for sample, least := range map[string]float64{
		`coatcheck_requests_total{method="session.open",outcome="ok"}`:        3,
		`coatcheck_requests_total{method="session.open",outcome="busy"}`:      1,
		`coatcheck_requests_total{method="session.commit",outcome="ok"}`:      2,
		`coatcheck_requests_total{method="session.commit",outcome="refused"}`: 1,
		`coatcheck_session_writes_refused_total{reason="superseded"}`:         1,
		`coatcheck_lock_wait_seconds_count{outcome="granted"}`:                1,
		`coatcheck_lock_wait_seconds_count{outcome="busy"}`:                   1,
		`coatcheck_lock_hold_seconds_count`:                                   3,
		`coatcheck_connections`:                                               1,
		`coatcheck_sessions`:                                                  1,
	} {
		check(t, h.metric(sample) >= least, "%s is %v, expected at least %v", sample, h.metric(sample), least)
	}
}

// metric returns one sample of /metrics, or -1.
func (h *house) metric(sample string) float64 {
	h.t.Helper()
	status, body := h.page("/metrics")
	check(h.t, status == http.StatusOK, "/metrics answered %d: %s", status, body)
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), sample+" "); found {
			n, err := strconv.ParseFloat(value, 64)
			check(h.t, err == nil, "%s: %v", line, err)
			return n
		}
	}
	return -1
}

func TestEachRefusedOrLostLockIsOneLineInTheLog(t *testing.T) {
	t.Parallel()
	t.Run("a refused write", func(t *testing.T) {
		t.Parallel()
		h, v, a, b, aGate, bGate := overrun(t)
		aGate.open()
		pid := a.end(t).mustWarn(t, "superseded").number("pid")
		bGate.open()
		b.end(t).mustBeOK(t)
		h.mustLogOnce("session write refused", v, pid, "superseded")
	})
	t.Run("a lock that was not granted", func(t *testing.T) {
		t.Parallel()
		h, v, holder, met, _ := crowded(t, "fail")
		h.mustLogOnce("session lock not granted", v, met.number("pid"), strconv.Itoa(holder.PID))
	})
	t.Run("a lock that was held for too long", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{daemon: []string{"COATCHECK_LOCK_MAX_HOLD=300ms"}})
		v, g := h.visitor(), h.gate()
		a := v.begin("count.php?until=" + g.path)
		holder := h.awaitHolder(v)
		h.awaitNoLocks()
		h.mustLogOnce("lock is renewed no more", v, holder.PID, "max_hold")
		g.open()
		a.end(t).mustBeOK(t)
	})
}

// mustLogOnce fails the test unless one line with this message says which session, which process, which script and why.
func (h *house) mustLogOnce(message string, v *visitor, pid int, why string) {
	h.t.Helper()
	var lines []map[string]any
	eventually(h.t, 5*time.Second, "the log says "+message, func() (bool, string) {
		lines = h.logged(message)
		return len(lines) > 0, h.daemonLog()
	})
	check(h.t, len(lines) == 1, "%d lines say %q:\n%s", len(lines), message, h.daemonLog())
	line := lines[0]
	check(h.t, line["lock"] == short(v.id) && line["pid"] == float64(pid) && line["level"] == "WARN", "the line is %v", line)
	check(h.t, strings.HasSuffix(fmt.Sprint(line["script"]), "/count.php"), "the script is not named: %v", line)
	check(h.t, strings.Contains(fmt.Sprint(line), why), "the line does not say %s: %v", why, line)
}

func TestIDsAndTokensAreNeverShownInFull(t *testing.T) {
	t.Parallel()
	h, v, a, b, aGate, bGate := overrun(t)
	token := strings.Repeat("0123456789abcdef", 2)
	own := v.get(`call.php?method=lock.acquire&params={"name":"report","token":"` + token + `"}`).mustBeOK(t)
	check(t, own.fact("result") != nil, "the lock was not taken: %s", own)
	v.get("count.php?ini[coatcheck.lock_wait]=0").mustWarn(t, short(v.id))

	var shown strings.Builder
	for _, page := range []string{"/v1/locks", "/v1/sessions", "/v1/status", "/metrics"} {
		status, body := h.page(page)
		check(t, status == http.StatusOK, "%s answered %d", page, status)
		shown.WriteString(body)
	}
	aGate.open()
	shown.WriteString(a.end(t).warning())
	bGate.open()
	b.end(t)
	h.daemon.end()
	shown.WriteString(h.daemonLog())

	check(t, strings.Contains(shown.String(), short(v.id)) && strings.Contains(shown.String(), short(token)),
		"nothing was shown at all")
	full := regexp.MustCompile(`[0-9a-f]{20,}`).FindString(strings.ReplaceAll(shown.String(), h.dir, ""))
	check(t, full == "", "an id or token is shown in full: %s", full)
}

func TestStatusNamesBusyAndIdleWorkers(t *testing.T) {
	t.Parallel()
	h := open(t, plan{
		workers: 3,
		pool:    []string{"pm.status_path=/status", "pm.status_listen=@DIR@/fpm-status.sock"},
		daemon:  []string{"COATCHECK_FPM=unix:@DIR@/fpm.sock", "COATCHECK_FPM_STATUS=unix:@DIR@/fpm-status.sock"},
	})
	v, g := h.visitor(), h.gate()
	held := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	out, err := exec.Command(theStage.daemon, "status", "--socket", h.socket).CombinedOutput()
	check(t, err == nil, "coatcheck status: %v: %s", err, out)
	check(t, regexp.MustCompile(`busy\W+1\b`).Match(out) && regexp.MustCompile(`idle\W+2\b`).Match(out), "coatcheck status says:\n%s", out)
	g.open()
	held.end(t).mustBeOK(t)
}

func TestTheDaemonServesScriptsItself(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err == nil, "no free port: %v", err)
	address := l.Addr().String()
	l.Close()
	h := open(t, plan{daemon: []string{
		"COATCHECK_HTTP=" + address, "COATCHECK_FPM=unix:@DIR@/fpm.sock", "COATCHECK_DOCROOT=" + theStage.scripts,
	}})
	h.front.URL = "http://" + address
	v := h.visitor()
	for _, a := range v.together(20, 4, "count.php") {
		a.mustBeOK(t)
	}
	check(t, v.stored(t, "") == `{"n":20}`, "20 requests counted to %s", v.stored(t, ""))
	check(t, v.get("no_such_script.php").status == http.StatusNotFound, "a script that is not there: %s", v.get("no_such_script.php"))
}

func TestTheShellCommandsAnswer(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	h.visitor().get("count.php").mustBeOK(t)
	for _, command := range []string{"ping", "status"} {
		out, err := exec.Command(theStage.daemon, command, "--socket", h.socket).CombinedOutput()
		check(t, err == nil && len(out) > 0, "coatcheck %s: %v: %s", command, err, out)
	}
	h.daemon.kill()
	out, err := exec.Command(theStage.daemon, "ping", "--socket", h.socket).CombinedOutput()
	check(t, err != nil && strings.Contains(string(out), "nobody listens"), "coatcheck ping without a daemon: %v: %s", err, out)
}

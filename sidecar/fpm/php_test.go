package fpm

import (
	"bufio"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// phpFPM is a php-fpm of the test's own, with one pool.
type phpFPM struct {
	t       *testing.T
	dir     string
	binary  string
	process *exec.Cmd
}

// startPHP starts php-fpm with the given number of workers. It skips the test only where php-fpm is not installed.
func startPHP(t *testing.T, workers int, extra string) *phpFPM {
	t.Helper()
	p := &phpFPM{t: t, dir: t.TempDir(), binary: findPHP()}
	if p.binary == "" {
		t.Skip("php-fpm is not installed (apt-get install php-fpm)")
	}
	conf := fmt.Sprintf(`[global]
daemonize = no
[test]
user = root
listen = %[1]s/fpm.sock
pm = static
pm.max_children = %[2]d
pm.status_path = /status
pm.status_listen = %[1]s/status.sock
ping.path = /ping
catch_workers_output = no
%[3]s
`, p.dir, workers, extra)
	if err := os.WriteFile(filepath.Join(p.dir, "fpm.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(p.stop)
	return p
}

func findPHP() string {
	for _, name := range []string{"php-fpm8.2", "php-fpm", "php-fpm8.5", "php-fpm8.4", "php-fpm8.3", "php-fpm8.1"} {
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// start returns when the pool is ready to take connections.
func (p *phpFPM) start() {
	p.t.Helper()
	args := []string{"-F", "-O", "-n", "-y", filepath.Join(p.dir, "fpm.conf")}
	if os.Getuid() == 0 {
		args = append(args, "-R")
	}
	p.process = exec.Command(p.binary, args...)
	stderr, err := p.process.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		p.t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		var seen strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			seen.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "ready to handle connections") {
				ready <- ""
			}
		}
		ready <- seen.String()
	}()
	if said := receive(p.t, ready, "php-fpm's start"); said != "" {
		p.t.Fatalf("php-fpm did not start:\n%s", said)
	}
}

func (p *phpFPM) stop() {
	if p.process != nil {
		p.process.Process.Signal(syscall.SIGTERM)
		p.process.Wait()
		p.process = nil
	}
}

func (p *phpFPM) address() string { return "unix:" + p.dir + "/fpm.sock" }

// pool returns a Pool that asks through pm.status_listen.
func (p *phpFPM) pool() *Pool {
	return newTestPool(p.t, func(c *PoolConfig) {
		c.Address, c.StatusAddress, c.Timeout = p.address(), "unix:"+p.dir+"/status.sock", limit
	})
}

func (p *phpFPM) status() Status {
	p.t.Helper()
	s, err := p.pool().Status(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// waitUntilIdle waits until so many workers wait for a connection; php-fpm says that it is ready before they do.
func (p *phpFPM) waitUntilIdle(workers int) {
	p.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for s := p.status(); s.Idle != workers; s = p.status() {
		if <-tick.C; time.Now().After(deadline) {
			p.t.Fatalf("%d workers did not become idle; seen last: %+v", workers, s)
		}
	}
}

// gate is where scripts of a test wait: each connects, says a line, and goes on when it is answered.
type gate struct {
	t       *testing.T
	l       net.Listener
	visits  chan *visit
	include string // PHP code that defines wait_at_gate($word)
}

type visit struct {
	word string
	c    net.Conn
}

func newGate(t *testing.T) *gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, l: l, visits: make(chan *visit, 64)}
	g.include = `<?php function wait_at_gate($word) {
		$s = stream_socket_client('unix://` + path + `'); fwrite($s, "$word\n"); return trim(fgets($s));
	} `
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word, _ := bufio.NewReader(c).ReadString('\n')
			g.visits <- &visit{strings.TrimSpace(word), c}
		}
	}()
	return g
}

// next waits for the next script at the gate.
func (g *gate) next(word string) *visit {
	g.t.Helper()
	v := receive(g.t, g.visits, "a script at the gate with "+word)
	if v.word != word {
		g.t.Fatalf("a script came with %q, want %q", v.word, word)
	}
	return v
}

func (v *visit) letGo() {
	io.WriteString(v.c, "go\n")
	v.c.Close()
}

func TestPHPSeesTheRequestAsUnderOtherServers(t *testing.T) {
	f := newFixture(t, startPHP(t, 2, "").address(), nil)
	f.file("sub/dump.php", `<?php header('Content-Type: application/json'); echo json_encode(['server' => $_SERVER, 'get' => $_GET,
		'post' => $_POST, 'cookie' => $_COOKIE, 'size' => strlen(file_get_contents('php://input'))]);`)
	r := f.request("POST", "/sub/dump.php/extra%20path?a=1&b[]=2", io.MultiReader(strings.NewReader("name=value&x=y")))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", "id=42")
	r.Header.Set("Proxy", "http://evil")
	r.SetBasicAuth("user", "pass")
	a := f.do(r)
	var got struct {
		Server       map[string]any
		Get          map[string]any
		Post, Cookie map[string]string
		Size         int
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	for name, want := range map[string]string{
		"SCRIPT_NAME": "/sub/dump.php", "PATH_INFO": "/extra path", "PHP_SELF": "/sub/dump.php/extra path",
		"SCRIPT_FILENAME": f.docroot + "/sub/dump.php", "REQUEST_URI": "/sub/dump.php/extra%20path?a=1&b[]=2",
		"PHP_AUTH_USER": "user", "PHP_AUTH_PW": "pass", "CONTENT_LENGTH": "14",
	} {
		if got.Server[name] != want {
			t.Errorf("%s is %v, want %q", name, got.Server[name], want)
		}
	}
	if _, ok := got.Server["HTTP_PROXY"]; ok {
		t.Error("HTTP_PROXY is set")
	}
	if got.Get["a"] != "1" || got.Post["name"] != "value" || got.Cookie["id"] != "42" || got.Size != 14 {
		t.Errorf("got %+v", got)
	}
}

func TestPHPBodiesOfEverySizeArriveWhole(t *testing.T) {
	f := newFixture(t, startPHP(t, 2, "").address(), nil)
	f.file("md5.php", `<?php $b = file_get_contents('php://input'); echo $_SERVER['CONTENT_LENGTH'] ?? 'none', ' ', md5($b);`)
	f.file("ignore.php", `<?php echo str_repeat('x', 300000);`)
	for _, size := range []int{0, 1, 65_000, 70_000, memoryBody, memoryBody + 1, 5 << 20} {
		content := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		sum := md5.Sum([]byte(content))
		want := fmt.Sprintf("%d %s", size, hex.EncodeToString(sum[:]))
		if a := f.do(f.request("POST", "/md5.php", io.MultiReader(strings.NewReader(content)))); a.body != want && size > 0 {
			t.Errorf("chunked, %d bytes: got %d %q", size, a.status, a.body)
		}
		if a := f.do(f.request("PUT", "/md5.php", strings.NewReader(content))); a.body != want {
			t.Errorf("plain, %d bytes: got %d %q, want %q", size, a.status, a.body, want)
		}
		if a := f.do(f.request("PUT", "/ignore.php", strings.NewReader(content))); len(a.body) != 300_000 {
			t.Errorf("ignored, %d bytes: got %d, %d bytes, %v", size, a.status, len(a.body), a.bodyErr)
		}
	}
}

func TestPHPAnswersPass(t *testing.T) {
	f := newFixture(t, startPHP(t, 2, "").address(), nil)
	f.file("a.php", `<?php setcookie('a', '1'); setcookie('b', '2'); http_response_code(418); echo 'teapot';`)
	f.file("redirect.php", `<?php header('Location: /there');`)
	f.file("304.php", `<?php http_response_code(304); header('ETag: "x"');`)
	f.file("head.php", `<?php header('X-Ran: yes'); echo str_repeat('x', 100000);`)
	f.file("fatal.php", `<?php ini_set('display_errors', 0); nope();`)
	f.file("big.php", `<?php for ($i = 0; $i < 2000; $i++) echo str_repeat(chr(65 + $i % 26), 5000);`)
	if a := f.get("/a.php"); a.status != 418 || a.body != "teapot" || strings.Join(a.header["Set-Cookie"], "|") != "a=1|b=2" {
		t.Errorf("got %+v", a)
	}
	if a := f.get("/redirect.php"); a.status != 302 || a.header.Get("Location") != "/there" {
		t.Errorf("redirect: got %+v", a)
	}
	if a := f.get("/304.php"); a.status != 304 || a.body != "" || a.header.Get("Etag") != `"x"` {
		t.Errorf("304: got %+v", a)
	}
	if a := f.do(f.request("HEAD", "/head.php", nil)); a.status != 200 || a.body != "" || a.header.Get("X-Ran") != "yes" {
		t.Errorf("HEAD: got %+v", a)
	}
	if a := f.get("/fatal.php"); a.status != 500 {
		t.Errorf("fatal error: got %+v", a)
	}
	if a := f.get("/big.php"); len(a.body) != 10_000_000 || a.bodyErr != nil {
		t.Errorf("big: got %d, %d bytes, %v", a.status, len(a.body), a.bodyErr)
	}
}

func TestPHPNeverRunsAnUpload(t *testing.T) {
	f := newFixture(t, startPHP(t, 1, "").address(), nil)
	f.file("upload.jpg", `<?php echo 'RAN';`)
	f.file("copy.php.bak", `<?php echo 'RAN';`)
	for _, target := range []string{
		"/upload.jpg", "/upload.jpg/x.php", "/upload.jpg%00.php", "/upload.jpg/.php", "/upload.jpg%2fx.php",
		"/copy.php.bak", "/copy.php.bak/x.php", "/index.php/upload.jpg", "/index.php/../upload.jpg/x.php",
	} {
		a := f.raw("GET " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if a.body == "RAN" {
			t.Errorf("%s ran", target)
		}
	}
}

func TestPHPHeadersOfEverySizeAreSettled(t *testing.T) {
	f := newFixture(t, startPHP(t, 2, "").address(), nil)
	f.file("long.php", `<?php header('X-Long: ' . str_repeat('v', $_GET['n'])); echo strlen($_SERVER['HTTP_X_BIG'] ?? '');`)
	if a := f.get("/long.php?n=15000"); len(a.header.Get("X-Long")) != 15_000 {
		t.Errorf("15,000 bytes: got %d", a.status)
	}
	f.wantRefusal(f.get("/long.php?n=20000"), ErrHeaderTooLong)
	r := f.request("GET", "/long.php?n=1", nil)
	r.Header.Set("X-Big", strings.Repeat("v", 60_000))
	if a := f.do(r); a.body != "60000" {
		t.Errorf("a request header of 60,000 bytes: got %d %q", a.status, a.body)
	}
}

func TestPHPKilledWorkerIsSaid(t *testing.T) {
	f := newFixture(t, startPHP(t, 1, "").address(), nil)
	f.file("kill.php", `<?php exec('kill -9 ' . getmypid());`)
	f.file("half.php", `<?php echo str_repeat('x', 20000); flush(); exec('kill -9 ' . getmypid());`)
	if a := f.get("/"); a.body != "index" {
		t.Fatalf("got %+v", a)
	}
	f.wantRefusal(f.get("/kill.php"), ErrBrokenOff)
	if a := f.get("/half.php"); a.bodyErr == nil {
		t.Errorf("the visitor took half a page for a whole one: %d, %d bytes", a.status, len(a.body))
	}
	if a := f.get("/"); a.body != "index" {
		t.Errorf("afterwards: got %+v", a)
	}
}

func TestPHPFinishRequestDelaysNobody(t *testing.T) {
	g := newGate(t)
	f := newFixture(t, startPHP(t, 2, "").address(), nil)
	f.file("finish.php", g.include+`echo 'early'; fastcgi_finish_request(); wait_at_gate('tail');`)
	for range 2 {
		if a := f.get("/"); a.body != "index" {
			t.Fatalf("got %+v", a)
		}
	}
	if a := f.get("/finish.php"); a.body != "early" {
		t.Fatalf("got %+v", a)
	}
	tail := g.next("tail")
	for range 20 {
		if a := f.get("/"); a.body != "index" {
			t.Errorf("while a script runs on: got %+v", a)
		}
	}
	tail.letGo()
}

func TestPHPOutputStreams(t *testing.T) {
	g := newGate(t)
	f := newFixture(t, startPHP(t, 1, "").address(), nil)
	f.file("stream.php", g.include+`echo 'first'; flush(); wait_at_gate('flushed'); echo 'second';`)
	resp, err := f.server.Client().Transport.RoundTrip(f.request("GET", "/stream.php", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "first" {
		t.Fatalf("got %q, %v", b, err)
	}
	g.next("flushed").letGo()
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "second" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestPHPNoticesThatTheVisitorLeft(t *testing.T) {
	g := newGate(t)
	f := newFixture(t, startPHP(t, 1, "").address(), nil)
	f.file("endless.php", g.include+`register_shutdown_function(fn() => wait_at_gate('aborted ' . connection_aborted()));
		wait_at_gate('begun'); while (true) { echo str_repeat('x', 1000); flush(); }`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := f.server.Client().Transport.RoundTrip(f.request("GET", "/endless.php", nil).WithContext(ctx)); err == nil {
			resp.Body.Close()
		}
	}()
	begun := g.next("begun")
	cancel()
	begun.letGo()
	g.next("aborted 1").letGo()
	receive(t, done, "the end of the request")
}

func TestPHPErrorsReachTheLog(t *testing.T) {
	f := newFixture(t, startPHP(t, 1, "").address(), nil)
	f.file("warn.php", `<?php error_log('it went wrong for ' . $_COOKIE['PHPSESSID']); echo 'ok';`)
	r := f.request("GET", "/warn.php", nil)
	r.Header.Set("Cookie", "PHPSESSID=0123456789abcdef")
	if a := f.do(r); a.body != "ok" {
		t.Errorf("got %+v", a)
	}
	if log := f.log.String(); !strings.Contains(log, "it went wrong for 012345…") || strings.Contains(log, "6789abcdef") {
		t.Errorf("the log says:\n%s", log)
	}
}

func TestPHPStatusTellsBusyFromIdle(t *testing.T) {
	g := newGate(t)
	p := startPHP(t, 3, "")
	p.waitUntilIdle(3)
	f := newFixture(t, p.address(), nil)
	f.file("wait.php", g.include+`wait_at_gate('busy'); echo 'done';`)
	if a := f.get("/"); a.body != "index" {
		t.Fatalf("got %+v", a)
	}
	p.waitUntilIdle(3)
	if s := p.status(); s.Busy != 0 || s.Kept != 0 || s.Pool != "test" || len(s.Workers) != 3 {
		t.Errorf("nothing to do: got %+v", s)
	}
	var visitors sync.WaitGroup
	for range 3 {
		visitors.Go(func() {
			if a := f.get("/wait.php?quote=\"&x=%22"); a.body != "done" {
				t.Errorf("got %+v", a)
			}
		})
	}
	waiting := []*visit{g.next("busy"), g.next("busy"), g.next("busy")}
	if s := p.status(); s.Busy != 3 || s.Kept != 0 || s.Idle != 0 {
		t.Errorf("all busy: got %+v", s)
	}
	busy := newTestPool(t, func(c *PoolConfig) { c.Address, c.Timeout = p.address(), 50*time.Millisecond })
	if err := busy.Ping(t.Context()); !errors.Is(err, ErrTimeout) {
		t.Errorf("ping while all are busy: got %v", err)
	}
	for _, v := range waiting {
		v.letGo()
	}
	visitors.Wait()
	shared := newTestPool(t, func(c *PoolConfig) { c.Address, c.Timeout = p.address(), limit })
	if err := shared.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPHPOtherClientsGetTheirTurn(t *testing.T) {
	p := startPHP(t, 2, "")
	f := newFixture(t, p.address(), nil)
	// The front has work without end, and more of it than there are workers.
	stop := make(chan struct{})
	var visitors sync.WaitGroup
	for range 8 {
		visitors.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if a := f.get("/"); a.body != "index" {
						t.Errorf("got %+v", a)
						return
					}
				}
			}
		})
	}
	for range 5 {
		if err := p.pool().Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	visitors.Wait()
}

func TestPHPManyVisitorsShareFewWorkers(t *testing.T) {
	for name, extra := range map[string]string{"workers stay": "", "workers are replaced": "pm.max_requests = 20"} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, startPHP(t, 2, extra).address(), nil)
			var visitors sync.WaitGroup
			for range 32 {
				visitors.Go(func() {
					for range 8 {
						if a := f.get("/"); a.status != http.StatusOK || a.body != "index" {
							t.Errorf("got %d %q\n%s", a.status, a.body, f.log)
							return
						}
					}
				})
			}
			visitors.Wait()
		})
	}
}

func TestPHPMayComeAndGo(t *testing.T) {
	p := startPHP(t, 1, "")
	f := newFixture(t, p.address(), nil)
	if a := f.get("/"); a.body != "index" {
		t.Fatalf("got %+v", a)
	}
	p.stop()
	f.wantRefusal(f.get("/"), ErrUnavailable)
	p.start()
	if a := f.get("/"); a.body != "index" {
		t.Errorf("after the restart: got %+v", a)
	}
}

func TestPHPOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	startPHP(t, 2, "listen = "+address)
	f := newFixture(t, address, nil)
	for range 3 {
		if a := f.get("/"); a.body != "index" {
			t.Errorf("got %+v", a)
		}
	}
}

package crash

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// acrossRestart is a request that holds its session's lock, and a bound lock of its own, until a line comes.
const acrossRestart = `
session_id('across-a-restart');
session_start();
$_SESSION['before'] = 1;
$fence = coatcheck_call('lock.acquire', ['name' => 'bound', 'token' => 'mine', 'bound' => true, 'lease_ms' => 60000])['fence'];
echo "held\n";
fgets(STDIN);
$_SESSION['after'] = 1;
var_dump(session_write_close());
var_dump(coatcheck_call('lock.acquire', ['name' => 'bound', 'token' => 'mine', 'bound' => true, 'lease_ms' => 60000])['fence'] === $fence);
var_dump(coatcheck_call('lock.release', ['name' => 'bound', 'token' => 'mine']));
echo "done\n";
fgets(STDIN);
`

// TestAPHPRequestThatHeldLocksAcrossARestartCommitsAndReleasesByItsTokens, and nobody else gets them before.
func TestAPHPRequestThatHeldLocksAcrossARestartCommitsAndReleasesByItsTokens(t *testing.T) {
	extension, err := filepath.Abs("../../phpext-shim/modules/coatcheck.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(extension); err != nil {
		t.Skip("the extension is not built: make ext")
	}
	if _, err := exec.LookPath("php"); err != nil {
		t.Skip("php is not installed")
	}
	d := place(t, "")
	d.start()
	php := exec.Command("php", "-n", "-d", "extension="+extension, "-d", "session.save_handler=coatcheck",
		"-d", "coatcheck.socket="+d.socket, "-d", "session.use_cookies=0", "-d", "session.use_strict_mode=0", "-d", "session.cache_limiter=",
		"-d", "display_errors=stdout", "-d", "error_reporting=-1", "-r", acrossRestart)
	in, err := php.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := php.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := php.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		php.Process.Kill()
		php.Wait()
	})
	lines := bufio.NewScanner(out)
	until := func(last string) (said []string) {
		t.Helper()
		for lines.Scan() {
			said = append(said, lines.Text())
			if lines.Text() == last {
				return said
			}
		}
		t.Fatalf("php ended after saying %q", said)
		return nil
	}
	until("held")
	d.kill()
	d.start()

	c, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other := &caller{Client: c, w: &world{t: t}}
	open := func() (map[string]any, wire.Code) {
		r, code := other.call("session.open", p("id", "across-a-restart"), p("token", "other"), p("lease_ms", lease))
		m, _ := r.(map[string]any)
		return m, code
	}
	if r, code := open(); code != wire.Busy {
		t.Errorf("the session's lock was given to another: %v %s", r, code)
	}
	if r, code := other.call("lock.acquire", p("name", "bound"), p("token", "other")); code != wire.Busy {
		t.Errorf("the lock was given to another: %v %s", r, code)
	}
	in.Write([]byte("\n"))
	if said := strings.Join(until("done"), "\n"); said != "bool(true)\nbool(true)\nbool(true)\ndone" {
		t.Errorf("php said:\n%s", said)
	}
	r, code := open()
	if code != "" || text(r["data"]) != "before|i:1;after|i:1;" {
		t.Errorf("the session is %q %s", text(r["data"]), code)
	}
	if r, code := other.call("lock.acquire", p("name", "bound"), p("token", "other")); code != "" {
		t.Errorf("the released lock cannot be had: %v %s", r, code)
	}
}

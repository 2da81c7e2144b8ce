package crash

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// nobody is a user who owns nothing.
const nobody = 65534

// smallDisk mounts a file system of a size, as mount(8) writes it, for the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	needsRoot(t, "mounts a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("this test mounts a small file system, which even root may not do here: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func needsRoot(t *testing.T, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("this test %s and is skipped: it must be run by root", what)
	}
}

// ready returns the status and the body of the daemon's readiness page.
func ready(t *testing.T, socket string) (int, string) {
	t.Helper()
	web := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	r, err := web.Get("http://daemon/readyz")
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

// fill sets values of 16 KiB until one is refused, and returns how many were acknowledged and why the next was not.
func fill(t *testing.T, c *client.Client, value []byte) (n int, why *wire.Error) {
	t.Helper()
	for n = range 10_000 {
		if err := put(t, c, n, value); errors.As(err, &why) {
			return n, why
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the disk does not become full")
	return 0, nil
}

func put(t *testing.T, c *client.Client, n int, value []byte) error {
	_, err := c.Call(t.Context(), "kv.set", wire.Pairs{p("key", fmt.Sprint("k", n)), p("value", value)})
	return err
}

// TestAFullDiskIsNamedSurvivedAndRecoveredFrom without a restart, and what was acknowledged before, and after, is there.
func TestAFullDiskIsNamedSurvivedAndRecoveredFrom(t *testing.T) {
	disk := smallDisk(t, "2m")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	d := place(t, filepath.Join(disk, "data"))
	admin := filepath.Join(d.dir, "admin")
	d.args = []string{"--admin", "unix:" + admin}
	d.start()
	c, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	value := make([]byte, 16<<10)
	rand.Read(value) // what is random is not compressed
	n, why := fill(t, c, value)
	if why.Code != wire.Unreachable || !strings.Contains(why.Message, "no space left on device") || !strings.Contains(why.Message, "the outcome is unknown") {
		t.Errorf("what was made but not kept is told as %s: %s", why.Code, why.Message)
	}
	var next *wire.Error
	if err := put(t, c, n+1, value); !errors.As(err, &next) || next.Code != wire.Unavailable || !strings.Contains(next.Message, "changes are refused") {
		t.Errorf("the next change: %v", err)
	}
	if got, err := c.Call(t.Context(), "kv.get", wire.Pairs{p("key", fmt.Sprint("k", n+1))}); err != nil || got != nil {
		t.Errorf("it was refused and made: %v", err)
	}
	if status, body := ready(t, admin); status != http.StatusServiceUnavailable || !strings.Contains(body, "no space left on device") {
		t.Errorf("readiness is %d: %s", status, body)
	}
	d.says("the journal cannot be written: changes are refused until it can")
	if got, err := c.Call(t.Context(), "kv.get", wire.Pairs{p("key", "k0")}); err != nil || text(got) != string(value) {
		t.Errorf("reads must go on: %v", err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	d.await(func() error { return put(t, c, n, value) })
	if status, body := ready(t, admin); status != http.StatusOK {
		t.Errorf("readiness is %d: %s", status, body)
	}
	d.says("the journal can be written again")
	d.kill()
	d.start()
	again, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for i := range n + 1 {
		if got, err := again.Call(t.Context(), "kv.get", wire.Pairs{p("key", fmt.Sprint("k", i))}); err != nil || text(got) != string(value) {
			t.Errorf("value %d of %d did not come back: %v", i, n+1, err)
		}
	}
}

// expect fails unless a line has every text in it.
func expect(t *testing.T, line string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(line, text) {
			t.Errorf("%q is not in: %s", text, line)
		}
	}
}

func TestAStartOnAFullDiskIsRefused(t *testing.T) {
	disk := smallDisk(t, "1m")
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	d := place(t, disk)
	expect(t, d.refuses(), disk, "no space left on device")
}

func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	disk := smallDisk(t, "1m")
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	d := place(t, disk)
	expect(t, d.refuses(), disk, "read-only file system", "must be able to write there")
}

// TestADirectoryOfSomebodyElseIsRefused, whether it is the directory itself or one above it.
func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	needsRoot(t, "runs the daemon as another user")
	for name, data := range map[string]string{"the directory": "", "the one above": "data"} {
		t.Run(name, func(t *testing.T) {
			owned, err := os.MkdirTemp(filepath.Dir(program), "") // root's, mode 0700
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(owned)
			d := place(t, filepath.Join(owned, data))
			if err := os.Chown(d.dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			d.user = nobody
			expect(t, d.refuses(), owned, "permission denied", "belongs to user 0, mode 0700", "runs as user 65534")
		})
	}
}

func TestADirectoryThatIsAFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := place(t, path)
	expect(t, d.refuses(), path, "not a directory", "remove the file")
}

func TestADirectoryThatOthersCanChangeIsWarnedOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d := place(t, dir)
	d.start()
	d.says("others than its owner can remove and replace files in the data directory")
}

func TestASecondDaemonIsRefused(t *testing.T) {
	first := place(t, "")
	first.start()
	second := place(t, first.data)
	expect(t, second.refuses(), first.data, "another daemon uses this directory")
	if err := first.serves(); err != nil {
		t.Errorf("the first does not serve any more: %v", err)
	}
}

// TestDamageIsNamedWithTheCommandThatRepairs, which then makes a start possible.
func TestDamageIsNamedWithTheCommandThatRepairs(t *testing.T) {
	d := place(t, "")
	d.start()
	c, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		if err := put(t, c, i, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	d.kill()
	segment := filepath.Join(d.data, "journal-0000000000000001")
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	b[60] ^= 1 // in the first record
	if err := os.WriteFile(segment, b, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, d.refuses(), segment, "offset ", "damaged", "coatcheck journal repair "+d.data)
	if out, err := exec.Command(program, "journal", "repair", d.data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.start()
}

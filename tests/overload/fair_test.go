package overload

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

// flood names the socket that the test binary floods when it is run as a process of its own: in the test's own process, the two would
// share more than the daemon.
const flood = "COATCHECK_TEST_FLOOD"

// flooding has 200 connections send requests as fast as they can, until standard input ends.
func flooding(socket string) int {
	var batch []byte
	for range 100 {
		batch = append(batch, request("kv.get", "key", "k")...)
	}
	for range 200 {
		nc, err := net.Dial("unix", socket)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := greet(nc); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go io.Copy(io.Discard, nc)
		go func() {
			for {
				if _, err := nc.Write(batch); err != nil {
					return
				}
			}
		}()
	}
	fmt.Println("flooding")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// probe asks one thing after the other for a while and returns how long the answers took, in order.
func probe(c *daemon.Client, d time.Duration) (took []time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		c.Ask("kv.get", "key", "k")
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// leastShare is what of its requests, alone, a quiet tenant gets at least beside one that floods the daemon with 200 connections. Without
// turns it got a thousandth on two processors, with them a tenth to an eighth; as much as a third went to the flooding process itself.
const leastShare = 0.01

// TestAQuietTenantBesideAFlood is served a share that does not depend on how many connections the other one has.
func TestAQuietTenantBesideAFlood(t *testing.T) {
	d := daemon.Start(t, "[tenants.a]\nsocket = 'DIR/a'\n[tenants.b]\nsocket = 'DIR/b'\n")
	b := d.Dial("b")
	alone := probe(b, time.Second)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), flood+"="+d.Path("a"))
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stop.Close()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the flood did not begin: %v", err)
	}
	requests := d.Metric(`coatcheck_tenant_requests_total{tenant="a"}`)
	beside := probe(b, 2*time.Second)
	requests = d.Metric(`coatcheck_tenant_requests_total{tenant="a"}`) - requests

	at := func(took []time.Duration, percent int) time.Duration { return took[len(took)*percent/100] }
	t.Logf("alone %d requests a second, median %v, 99th percentile %v", len(alone), at(alone, 50), at(alone, 99))
	t.Logf("beside %.0f requests a second of the other: %d, median %v, 99th percentile %v",
		requests/2, len(beside)/2, at(beside, 50), at(beside, 99))
	if requests < 20_000 {
		t.Fatalf("the other tenant asked %v times only: that is no flood", requests)
	}
	if got, want := len(beside)/2, int(leastShare*float64(len(alone))); got < want {
		t.Errorf("the quiet tenant was served %d times a second, want %d", got, want)
	}
}

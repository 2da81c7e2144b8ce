package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/app"
	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// BenchmarkDaemonCycle is session.open and session.commit of 4 KiB over the daemon's socket by one client that, like PHP,
// blocks in the kernel. Profile the daemon with
//
//	go test -run '^$' -bench DaemonCycle -cpuprofile cpu.pprof ./tests/bench
func BenchmarkDaemonCycle(b *testing.B) {
	fd := connect(b, startDaemon(b))
	data := make([]byte, 4<<10)
	var out []byte
	in := make([]byte, 16<<10)
	for i := range uint32(b.N) {
		id, token := fmt.Sprintf("session-%d", i%256), fmt.Sprintf("%032x", i)
		out = wire.AppendRequest(out[:0], 1, "session.open", wire.Pairs{
			{Key: "id", Value: id}, {Key: "token", Value: token}, {Key: "lease_ms", Value: 30_000},
			{Key: "wait_ms", Value: 30_000}, {Key: "script", Value: "/srv/www/index.php"},
		})
		opened := exchange(b, fd, out, in)
		out = wire.AppendRequest(out[:0], 2, "session.commit", wire.Pairs{
			{Key: "id", Value: id}, {Key: "token", Value: token}, {Key: "fence", Value: opened["fence"]},
			{Key: "data", Value: data}, {Key: "ttl_ms", Value: 1_440_000}, {Key: "release", Value: true},
		})
		if committed := exchange(b, fd, out, in); committed["stored"] != true || committed["released"] != true {
			b.Fatalf("the commit answered %v", committed)
		}
	}
}

func startDaemon(b *testing.B) string {
	b.Helper()
	socket := filepath.Join(b.TempDir(), "coatcheck.sock")
	cfg, _, err := config.Load("", nil, map[string]string{"socket": socket, "data": ""})
	if err != nil {
		b.Fatal(err)
	}
	daemon, err := app.Start(cfg, "bench", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(daemon.Stop)
	return socket
}

// connect returns a blocking socket that has said hello. The net package would poll instead.
func connect(b *testing.B, path string) int {
	b.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		b.Fatal(err)
	}
	hello := wire.AppendRequest(nil, 0, "hello", wire.Pairs{{Key: "version", Value: wire.Version}, {Key: "client", Value: "bench"}})
	exchange(b, fd, hello, make([]byte, 4<<10))
	return fd
}

// exchange sends a request and returns the map that answers it.
func exchange(b *testing.B, fd int, request, in []byte) map[string]any {
	if _, err := syscall.Write(fd, request); err != nil {
		b.Fatal(err)
	}
	n := 0
	for n < 4 || n < 4+int(binary.BigEndian.Uint32(in)) {
		more, err := syscall.Read(fd, in[n:])
		if err != nil || more == 0 {
			b.Fatalf("read an answer: %d bytes, %v", more, err)
		}
		n += more
	}
	_, result, err := wire.DecodeResponse(in[4:n])
	if err != nil {
		b.Fatal(err)
	}
	answer, _ := result.(map[string]any)
	return answer
}

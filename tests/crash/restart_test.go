package crash

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// BenchmarkRestart is how long it takes until the daemon serves again, and how much of the processors' time, with a million sessions of 1 KiB (RESTART_SESSIONS says
// another number), half of them in a snapshot and half in segments. It also counts the requests that were answered "starting" meanwhile.
//
//	go test -run '^$' -bench Restart -benchtime 3x ./tests/crash
func BenchmarkRestart(b *testing.B) {
	sessions := 1_000_000
	if given := os.Getenv("RESTART_SESSIONS"); given != "" {
		var err error
		if sessions, err = strconv.Atoi(given); err != nil {
			b.Fatal(err)
		}
	}
	d := place(b, "")
	keepSessions(b, d.data, sessions)
	starting, user, system := 0, time.Duration(0), time.Duration(0)
	d.pause = 20 * time.Millisecond // asking takes the daemon's time, too
	b.ResetTimer()
	for range b.N {
		b.StartTimer()
		d.launch()
		d.await(func() error {
			err := d.serves()
			var e *wire.Error
			if errors.As(err, &e) && e.Code == wire.Unavailable {
				starting++
			}
			return err
		})
		b.StopTimer()
		c, err := d.dial()
		if err != nil {
			b.Fatal(err)
		}
		status, err := c.Call(b.Context(), "server.status", nil)
		if err != nil {
			b.Fatal(err)
		}
		if m, _ := status.(map[string]any); number(m["sessions"]) != int64(sessions) {
			b.Fatalf("%v sessions came back", m["sessions"])
		}
		c.Close()
		d.kill()
		user += d.cmd.ProcessState.UserTime()
		system += d.cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(starting)/float64(b.N), "starting/op")
	b.ReportMetric(float64(user.Milliseconds())/float64(b.N), "user-ms/op")
	b.ReportMetric(float64(system.Milliseconds())/float64(b.N), "system-ms/op")
	b.Log(d.log.String())
}

// TestADaemonThatReadsItsJournalAnswersThatItIsStarting on its socket, and then serves what it read.
func TestADaemonThatReadsItsJournalAnswersThatItIsStarting(t *testing.T) {
	const sessions = 100_000 // enough to be seen at it
	d := place(t, "")
	keepSessions(t, d.data, sessions)
	d.launch()
	answers := make(map[string]int)
	d.await(func() error {
		err := d.serves()
		var e *wire.Error
		if errors.As(err, &e) {
			answers[string(e.Code)+": "+e.Message]++
		}
		return err
	})
	if len(answers) != 1 || answers["unavailable: the daemon is starting"] == 0 {
		t.Errorf("until it served it answered %v", answers)
	}
	c, err := d.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	status, err := c.Call(t.Context(), "server.status", nil)
	if m, _ := status.(map[string]any); err != nil || number(m["sessions"]) != sessions {
		t.Errorf("it serves %v sessions, %v", m["sessions"], err)
	}
}

// keepSessions makes a data directory that holds so many sessions.
func keepSessions(b testing.TB, dir string, sessions int) {
	b.Helper()
	s := store.New(store.Limits{})
	j := journal.New(journal.Config{
		Dir: dir, Values: true, Fsync: journal.Never, Grow: 1 << 40, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, s)
	if err := j.Open(); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1<<10)
	rand.Read(data)
	now := time.Now().UnixMilli()
	var id [16]byte
	for i := range sessions {
		rand.Read(id[:])
		copy(data, fmt.Sprint(i))
		s.Apply(&store.Command{
			Op: store.OpSessionCommit, Now: now, Space: store.Space{Tenant: "default"},
			Key: []byte(hex.EncodeToString(id[:])), Value: data, TTL: 86_400_000 + int64(i),
		})
		if i%1000 == 999 {
			if err := j.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		if i == sessions/2 {
			if err := j.Snapshot(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

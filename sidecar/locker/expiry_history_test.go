package locker

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// timed is a call on a value that may expire, with the clock when it was made.
type timed struct {
	op, key, token string
	ttl, called    int64
}

// timedReply is its answer, with the clock when it came.
type timedReply struct {
	ok       bool
	value    string
	returned int64
}

// mortal is a value, "" for missing, and the earliest and the latest moment at which it can expire.
type mortal struct {
	value            string
	earliest, latest int64
}

// expiryModel allows a value to be gone from the moment at which it can have expired, and demands it from the
// moment at which it must have.
var expiryModel = porcupine.Model{
	Init: func() any { return mortal{} },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(mortal), in.(timed), out.(timedReply)
		alive := s.value != "" && c.called < s.latest
		gone := s.value == "" || r.returned >= s.earliest
		written := mortal{c.token, c.called + c.ttl, r.returned + c.ttl}
		switch c.op {
		case "set":
			return r.ok, written
		case "setnx":
			if r.ok {
				return gone, written
			}
			return alive, s
		case "get":
			if r.value == "" {
				return gone, mortal{}
			}
			return alive && r.value == s.value, s
		default: // del_if_eq
			if r.ok {
				return alive && s.value == c.token, mortal{}
			}
			return gone || s.value != c.token, s
		}
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			parts[o.Input.(timed).key] = append(parts[o.Input.(timed).key], o)
		}
		var list [][]porcupine.Operation
		for _, part := range parts {
			list = append(list, part)
		}
		return list
	},
}

// clocked is a locker whose time is what the test says.
func clocked(clock *atomic.Int64) *Locker {
	return New(arbiter.NewLocal(store.New(store.Limits{}), clock.Load, nil), Config{
		Lease: 30 * time.Second, MaxWaiters: 100,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	})
}

// try makes one call.
func try(t *testing.T, c *Client, in timed) timedReply {
	cmd := &store.Command{Op: store.OpSet, Space: space, Key: []byte(in.key), Value: []byte(in.token), TTL: in.ttl}
	switch in.op {
	case "setnx":
		cmd.If = store.IfAbsent
	case "get":
		cmd.Op = store.OpGet
	case "del_if_eq":
		cmd.Op, cmd.If, cmd.Match = store.OpDel, store.IfEqual, []byte(in.token)
	}
	r, err := c.Do(t.Context(), cmd)
	if err != nil {
		t.Error(err)
	}
	if in.op == "get" {
		return timedReply{ok: true, value: string(r.Value)}
	}
	return timedReply{ok: r.Done}
}

func TestValuesAreLinearizableAcrossExpiry(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_800_000_000_000)
	l := clocked(&clock)
	ops := []string{"set", "setnx", "setnx", "get", "get", "del_if_eq"}
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	for id := range 6 {
		all.Go(func() {
			c := l.NewClient()
			defer c.Close()
			rnd := rand.New(rand.NewPCG(uint64(id), 4))
			for range 150 {
				if rnd.IntN(4) == 0 {
					clock.Add(1)
				}
				in := timed{ops[rnd.IntN(len(ops))], fmt.Sprint("k", rnd.IntN(3)), strconv.Itoa(1 + rnd.IntN(3)), 1 + rnd.Int64N(20), clock.Load()}
				from := time.Since(began)
				out := try(t, c, in)
				to := time.Since(began)
				out.returned = clock.Load()
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: id, Input: in, Call: int64(from), Output: out, Return: int64(to)})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	checkHistory(t, expiryModel, history)
	// A lost setnx turned into a won one is two winners: the model must not explain it.
	for i, o := range history {
		in, out := o.Input.(timed), o.Output.(timedReply)
		if in.op == "get" && out.value != "" {
			out.value = "never written"
			history[i].Output = out
			break
		}
	}
	if porcupine.CheckOperations(expiryModel, history) {
		t.Error("the model explains a value that was never written")
	}
}

func TestOneWinnerForEachOfAThousandKeys(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_800_000_000_000)
	l := clocked(&clock)
	const keys, clients = 1000, 100
	var wins [keys]atomic.Int64 // the number of the client, plus one
	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			c := l.NewClient()
			defer c.Close()
			for i := range keys {
				key := (i + id*37) % keys
				if try(t, c, timed{op: "setnx", key: fmt.Sprint(key), token: fmt.Sprint(id)}).ok && wins[key].Swap(int64(id)+1) != 0 {
					t.Errorf("key %d has two winners", key)
				}
			}
		})
	}
	all.Wait()
	c := l.NewClient()
	defer c.Close()
	for key := range keys {
		if got, want := try(t, c, timed{op: "get", key: fmt.Sprint(key)}).value, fmt.Sprint(wins[key].Load()-1); got != want {
			t.Fatalf("key %d holds %q, its winner is %q", key, got, want)
		}
	}
}

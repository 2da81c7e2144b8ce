package locker

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// What several clients did at once is recorded with the times of call and return, and porcupine looks for
// an order of single steps that explains every answer.

type call struct {
	op    string // acquire, release; set, setnx, get, incr, del_if_eq
	key   string
	token string
}

type reply struct {
	ok    bool
	value string
	fence uint64
}

// lockState is a lock as one step leaves it.
type lockState struct {
	holder string
	fence  uint64 // of the last grant
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(lockState), in.(call), out.(reply)
		switch c.op {
		case "acquire":
			if !r.ok { // its wait was over: then another had it
				return s.holder != "" && s.holder != c.token, s
			}
			return s.holder == "" && r.fence > s.fence, lockState{c.token, r.fence}
		default:
			if r.ok != (s.holder == c.token) {
				return false, s
			}
			if r.ok {
				s.holder = ""
			}
			return true, s
		}
	},
	Partition: byKey,
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

// valueModel is a string under a key; "" is missing.
var valueModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		s, c, r := state.(string), in.(call), out.(reply)
		switch c.op {
		case "set":
			return r.ok, c.token
		case "setnx":
			if r.ok != (s == "") {
				return false, s
			}
			if r.ok {
				s = c.token
			}
			return true, s
		case "get":
			return r.value == s, s
		case "incr":
			n, err := strconv.Atoi("0" + s)
			if s != "" && err != nil {
				return !r.ok, s
			}
			next := strconv.Itoa(n + 1)
			return r.ok && r.value == next, next
		default: // del_if_eq
			if r.ok != (s == c.token) {
				return false, s
			}
			if r.ok {
				s = ""
			}
			return true, s
		}
	},
	Partition: byKey,
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

// byKey splits a history into one for each key.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range history {
		key := o.Input.(call).key
		byKey[key] = append(byKey[key], o)
	}
	var parts [][]porcupine.Operation
	for _, part := range byKey {
		parts = append(parts, part)
	}
	return parts
}

// realHouse is a locker in real time.
func realHouse() *Locker {
	clock := func() int64 { return time.Now().UnixMilli() }
	return New(arbiter.NewLocal(store.New(store.Limits{}), clock, nil), Config{
		Lease: 30 * time.Second, MaxHold: time.Minute, MaxWait: time.Minute, MaxWaiters: 100,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	})
}

// record runs work as several clients at once, each of which does so many calls, and returns what happened.
func record(t *testing.T, clients, calls int, work func(c *Client, rnd *rand.Rand, i int) (call, func() reply)) []porcupine.Operation {
	t.Helper()
	l := realHouse()
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			c := l.NewClient()
			defer c.Close()
			rnd := rand.New(rand.NewPCG(uint64(id), 9))
			var mine []porcupine.Operation
			for i := range calls {
				in, do := work(c, rnd, i)
				from := time.Since(began)
				out := do()
				mine = append(mine, porcupine.Operation{ClientId: id, Input: in, Call: int64(from), Output: out, Return: int64(time.Since(began))})
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, mine...)
		})
	}
	all.Wait()
	return history
}

func checkHistory(t *testing.T, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, history, 30*time.Second) {
	case porcupine.Illegal:
		t.Errorf("no order of single steps explains what these %d calls were answered", len(history))
	case porcupine.Unknown:
		t.Errorf("the check of %d calls took too long: make the history smaller", len(history))
	}
}

func TestLocksAreLinearizable(t *testing.T) {
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, false) }} {
		var mu sync.Mutex
		tokens := map[*Client]string{} // what each client holds
		const last = 59
		history := record(t, 6, last+1, func(c *Client, rnd *rand.Rand, i int) (call, func() reply) {
			mu.Lock()
			token, holds := tokens[c]
			mu.Unlock()
			key := "only"
			if i == last && !holds { // not an acquisition: its lock would be released, unrecorded, with its client
				token = "nobody's"
				holds = true
			}
			if holds {
				cmd := release(kind(token))
				return call{"release", key, token}, func() reply {
					r, err := c.Do(t.Context(), cmd)
					mu.Lock()
					defer mu.Unlock()
					delete(tokens, c)
					return reply{ok: err == nil && r.Done}
				}
			}
			token = fmt.Sprintf("%p-%d", c, i)
			cmd := kind(token)
			patience := time.Duration(rnd.IntN(3)) * time.Millisecond
			return call{"acquire", key, token}, func() reply {
				r, err := c.Do(t.Context(), cmd)
				if err == nil && r.Status == store.Busy && patience > 0 {
					r, err = c.Wait(t.Context(), cmd, patience)
				}
				ok := err == nil && r.Status == store.OK
				if ok {
					mu.Lock()
					tokens[c] = token
					mu.Unlock()
				}
				return reply{ok: ok, fence: r.Fence}
			}
		})
		// One who finds the queue occupied is told busy, though the lock may be free in that instant: it steps back behind
		// those who wait. That is no statement on the lock, so those answers are left out.
		kept := history[:0]
		granted := 0
		for _, o := range history {
			in, out := o.Input.(call), o.Output.(reply)
			if in.op == "acquire" && !out.ok {
				continue
			}
			if in.op == "acquire" {
				granted++
			}
			kept = append(kept, o)
		}
		if granted < 30 {
			t.Errorf("only %d grants in the history: it proves little", granted)
		}
		checkHistory(t, lockModel, kept)
	}
}

func TestValuesAreLinearizable(t *testing.T) {
	ops := []string{"set", "setnx", "get", "incr", "del_if_eq"}
	history := record(t, 6, 150, func(c *Client, rnd *rand.Rand, _ int) (call, func() reply) {
		in := call{ops[rnd.IntN(len(ops))], fmt.Sprintf("k%d", rnd.IntN(3)), strconv.Itoa(1 + rnd.IntN(4))}
		cmd := &store.Command{Space: space, Key: []byte(in.key), Value: []byte(in.token)}
		switch in.op {
		case "set":
			cmd.Op = store.OpSet
		case "setnx":
			cmd.Op, cmd.If = store.OpSet, store.IfAbsent
		case "get":
			cmd.Op = store.OpGet
		case "incr":
			cmd.Op, cmd.Delta = store.OpIncr, 1
		case "del_if_eq":
			cmd.Op, cmd.If, cmd.Match = store.OpDel, store.IfEqual, []byte(in.token)
		}
		return in, func() reply {
			r, err := c.Do(t.Context(), cmd)
			if err != nil {
				t.Error(err)
			}
			switch in.op {
			case "get":
				return reply{ok: true, value: string(r.Value)}
			case "incr":
				return reply{ok: r.Status == store.OK, value: strconv.FormatInt(r.N, 10)}
			}
			return reply{ok: r.Done}
		}
	})
	checkHistory(t, valueModel, history)
}

func TestTheModelsRefuseWrongHistories(t *testing.T) {
	op := func(client int, in call, from int64, out reply, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Call: from, Output: out, Return: to}
	}
	two := []porcupine.Operation{ // two holders
		op(0, call{"acquire", "l", "a"}, 0, reply{ok: true, fence: 1}, 1),
		op(1, call{"acquire", "l", "b"}, 2, reply{ok: true, fence: 2}, 3),
		op(0, call{"release", "l", "a"}, 4, reply{ok: true}, 5),
	}
	back := []porcupine.Operation{ // a fence that went back
		op(0, call{"acquire", "l", "a"}, 0, reply{ok: true, fence: 2}, 1),
		op(0, call{"release", "l", "a"}, 2, reply{ok: true}, 3),
		op(1, call{"acquire", "l", "b"}, 4, reply{ok: true, fence: 1}, 5),
	}
	lost := []porcupine.Operation{ // an increment that was lost
		op(0, call{"incr", "k", ""}, 0, reply{ok: true, value: "1"}, 5),
		op(1, call{"incr", "k", ""}, 1, reply{ok: true, value: "1"}, 4),
	}
	if porcupine.CheckOperations(lockModel, two) || porcupine.CheckOperations(lockModel, back) || porcupine.CheckOperations(valueModel, lost) {
		t.Error("a wrong history was accepted: the models prove nothing")
	}
}

// BenchmarkHandOver is a release and the grant to the one who waits.
func BenchmarkHandOver(b *testing.B) {
	l := realHouse()
	c := l.NewClient()
	defer c.Close()
	granted := make(chan struct{})
	turn := func(token string) {
		r, err := c.Wait(b.Context(), session(token), time.Minute)
		if err != nil || r.Status != store.OK {
			b.Error(r, err)
		}
		granted <- struct{}{}
	}
	if r, err := c.Do(b.Context(), session("t0")); err != nil || !r.Locked {
		b.Fatal(r, err)
	}
	i := 0
	for b.Loop() {
		b.StopTimer()
		go turn(fmt.Sprintf("t%d", i+1))
		for l.Waiting() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		b.StartTimer()
		if _, err := c.Do(b.Context(), release(session(fmt.Sprintf("t%d", i)))); err != nil {
			b.Fatal(err)
		}
		<-granted
		i++
	}
}

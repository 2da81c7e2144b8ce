package journal

import (
	"runtime"
	"sync"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// restorers replay records at the same time, each those of some shards, while the next ones are read.
type restorers struct {
	apply   func(record []byte) error
	filling []batch // for each of them, what is to be sent to it
	work    []chan batch
	empty   chan batch // to be filled again
	sent    sync.WaitGroup

	mu     sync.Mutex
	failed *misplaced // guarded by mu
}

// batch is some records, one behind another.
type batch struct {
	records []byte
	places  []place
}

// place says where a record ends in its batch, and where it was in its file.
type place struct {
	end    int
	offset int64
}

// batchSize is when a batch is sent, in bytes: enough to hardly notice the sending.
const batchSize = 128 << 10

// maxRestorers is how many are of use: reading takes a third of the time that restoring takes.
const maxRestorers = 4

func newRestorers(apply func(record []byte) error) *restorers {
	n := min(runtime.GOMAXPROCS(0), maxRestorers)
	r := &restorers{apply: apply, filling: make([]batch, n), work: make([]chan batch, n), empty: make(chan batch, 4*n)}
	for i := range r.work {
		r.work[i] = make(chan batch, 2)
		go r.run(r.work[i])
	}
	return r
}

// end ends them. What was given before and not waited for may be left undone.
func (r *restorers) end() {
	for _, work := range r.work {
		close(work)
	}
}

func (r *restorers) run(work <-chan batch) {
	for b := range work {
		begin := 0
		for _, p := range b.places {
			if err := r.apply(b.records[begin:p.end]); err != nil {
				r.fail(&misplaced{p.offset, err})
				break
			}
			begin = p.end
		}
		if cap(b.records) <= 2*batchSize {
			select {
			case r.empty <- batch{b.records[:0], b.places[:0]}:
			default:
			}
		}
		r.sent.Done()
	}
}

func (r *restorers) fail(m *misplaced) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil || m.offset < r.failed.offset {
		r.failed = m
	}
}

func (r *restorers) restore(record []byte, offset int64) error {
	shard := store.ShardOf(record)
	if shard < 0 { // nothing may run beside it
		if err := r.wait(); err != nil {
			return err
		}
		return r.apply(record)
	}
	i := shard % len(r.work)
	b := &r.filling[i]
	b.records = append(b.records, record...)
	b.places = append(b.places, place{len(b.records), offset})
	if len(b.records) >= batchSize {
		r.send(i)
	}
	return nil
}

func (r *restorers) send(i int) {
	if len(r.filling[i].places) == 0 {
		return
	}
	r.sent.Add(1)
	r.work[i] <- r.filling[i]
	select {
	case r.filling[i] = <-r.empty:
	default:
		r.filling[i] = batch{records: make([]byte, 0, batchSize+batchSize/2)}
	}
}

func (r *restorers) wait() error {
	for i := range r.filling {
		r.send(i)
	}
	r.sent.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	return nil
}

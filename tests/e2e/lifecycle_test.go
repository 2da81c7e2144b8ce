package e2e

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"os"
	"strings"
	"testing"
	"time"
)

func TestSessionResetTakesChangesBack(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	a := v.get("reset.php").mustBeOK(t)
	check(t, a.fact("reset") == true && a.number("before") == 2, "no reset: %s", a)
	check(t, a.fact("took_ms").(float64) < 1000, "the reset waited for its own lock: %s", a)
	check(t, v.stored(t, "") == `{"n":1}`, "after the reset %s is stored", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestSessionAbortWritesNothing(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	check(t, v.get("abort.php").mustBeOK(t).fact("aborted") == true, "session_abort() failed")
	h.awaitNoLocks()
	check(t, v.stored(t, "") == `{"n":1}`, "after the abort %s is stored", v.stored(t, ""))
}

func TestReadAndCloseLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	a := v.get("read_and_close.php").mustBeOK(t)
	check(t, a.number("n") == 2 && a.fact("started") == true, "no start after two reads: %s", a)
	check(t, a.took < 2*time.Second, "the start waited for a reader of its own request: %s", a)
	h.awaitNoLocks()
}

func TestRegenerateIDGivesEachIDALockOfItsOwn(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	for _, deleted := range []bool{false, true} {
		for _, strict := range []int{0, 1} {
			for _, locking := range []int{0, 1} {
				for _, proxy := range []string{"", "&proxy=1"} {
					name := fmt.Sprintf("delete %t, strict %d, locking %d%s", deleted, strict, locking, proxy)
					t.Run(name, func(t *testing.T) {
						query := fmt.Sprintf("ini[session.use_strict_mode]=%d&ini[coatcheck.session_locking]=%d%s",
							strict, locking, proxy)
						regenerate(t, h, deleted, query)
					})
				}
			}
		}
	}
}

// regenerate counts once, then has the script count, change the id, and count again.
func regenerate(t *testing.T, h *house, deleted bool, query string) {
	t.Helper()
	before := h.visitor()
	before.get("count.php").mustBeOK(t)
	script := "regenerate.php?" + query
	if deleted {
		script += "&delete=1"
	}
	a := before.get(script).mustBeOK(t)
	after := &visitor{h: h, id: a.text("new")}
	check(t, a.fact("done") == true && a.text("old") == before.id && after.id != before.id, "no new id: %s", a)
	check(t, a.cookie == after.id, "the new id was not sent as a cookie: %s", a.cookie)
	h.awaitNoLocks()
	check(t, after.stored(t, query) == `{"n":3}`, "under the new id is %s", after.stored(t, query))
	_, exists := h.record(before)
	check(t, exists != deleted, "the old record exists: %t", exists)
	if !deleted {
		check(t, before.stored(t, query) == `{"n":2}`, "under the old id is %s", before.stored(t, query))
	}
}

func TestStrictModeReplacesUnknownIDsAndKeepsKnownOnes(t *testing.T) {
	t.Parallel()
	h := open(t, plan{ini: []string{"session.use_strict_mode=On"}})
	stranger := h.visitor()
	a := stranger.get("count.php").mustBeOK(t)
	check(t, a.text("id") != stranger.id && a.cookie == a.text("id"), "an id that nobody gave was accepted: %s", a)
	known := &visitor{h: h, id: a.cookie}
	b := known.get("count.php").mustBeOK(t)
	check(t, b.text("id") == known.id && b.number("n") == 2, "the id that we gave was not accepted: %s", b)
	check(t, len(h.records()) == 1, "records: %v", h.records())
	h.awaitNoLocks()
}

func TestSessionGCAnswersZeroAndRemovesNothing(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	a := v.get("gc.php").mustBeOK(t)
	check(t, a.number("collected") == 0 && a.number("n") == 2, "session_gc() in the middle of a session: %s", a)
	h.awaitNoLocks()
}

func TestAnUnchangedSessionIsTouchedAndLivesOn(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.outlivesItsLifetime(t)
	eventually(t, 10*time.Second, "the session ends when nobody comes", func() (bool, string) {
		r, exists := h.record(v)
		return !exists, fmt.Sprint(r.TTLMs, " ms left")
	})
}

// outlivesItsLifetime starts a session that lasts 4 s, and visits it without a change for longer than that.
func (v *visitor) outlivesItsLifetime(t *testing.T) {
	t.Helper()
	const lifetime = "ini[session.gc_maxlifetime]=4"
	v.get("count.php?" + lifetime).mustBeOK(t)
	for range 4 {
		var left int64
		eventually(t, 5*time.Second, "a part of the session's life is over", func() (bool, string) {
			r, exists := v.h.record(v)
			check(t, exists, "the session ended before its time")
			left = r.TTLMs
			return left < 2800, fmt.Sprint(left, " ms left")
		})
		a := v.get("untouched.php?" + lifetime).mustBeOK(t)
		r, _ := v.h.record(v)
		check(t, r.TTLMs > left, "%d ms were left before the touch, %d after: %s", left, r.TTLMs, a)
	}
	check(t, v.stored(t, lifetime) == `{"n":1}`, "the session is %s", v.stored(t, lifetime))
}

func TestAnUnchangedSessionWhoseRecordVanishedIsWritten(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	v.get("count.php?ini[session.gc_maxlifetime]=1").mustBeOK(t)
	a := v.begin("untouched.php?until=" + g.path)
	h.awaitHolder(v)
	eventually(t, 5*time.Second, "the record has expired", func() (bool, string) {
		r, exists := h.record(v)
		return !exists, fmt.Sprint(r.TTLMs, " ms left")
	})
	g.open()
	a.end(t).mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":1}`, "the session is %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestAnEmptySessionIsARecordOfItsOwn(t *testing.T) {
	t.Parallel()
	h := open(t, plan{ini: []string{"session.serialize_handler=php"}})
	v := h.visitor()
	v.get("untouched.php").mustBeOK(t)
	r, exists := h.record(v)
	check(t, exists && r.Size == 0, "an empty session is kept as %v, %t", r, exists)
	a := v.get("untouched.php?ini[session.use_strict_mode]=1").mustBeOK(t)
	check(t, a.text("id") == v.id, "strict mode does not know the empty session: %s", a)
	h.awaitNoLocks()
}

func TestASessionHandlerWhoseReadThrowsLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	a := v.get("reading_handler_throws.php")
	check(t, a.ok() && a.text("thrown") == "this session is not to my liking", "the exception did not come through: %s", a)
	h.awaitNoLocks()
	next := v.get("count.php").mustBeOK(t)
	check(t, next.number("n") == 2 && next.took < time.Second, "the next request of the same worker: %s", next)
}

func TestASessionThatCannotBeDecodedIsDestroyedAndUnlocked(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	a := v.get("decoding_fails.php")
	check(t, strings.Contains(strings.Join(a.warnings(), "\n"), "Failed to decode session object"), "no warning: %s", a)
	_, exists := h.record(v)
	check(t, !exists, "what cannot be decoded was kept")
	h.awaitNoLocks()
}

func TestASessionLeftOpenIsWrittenAndUnlockedAtTheEnd(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	first, second := h.visitor(), h.visitor()
	first.get("sessions_in_turn.php?first=" + first.id + "&second=" + second.id).mustBeOK(t)
	h.awaitNoLocks()
	for _, v := range []*visitor{first, second} {
		check(t, v.stored(t, "") == `{"n":1}`, "the session is %s", v.stored(t, ""))
	}
}

func TestARequestThatAnswersEarlyKeepsItsSessionUntilItsEnd(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	a := v.get("finish_early.php?until=" + g.path).mustBeOK(t)
	holder, held := h.holder(v)
	check(t, held && holder.PID == a.number("pid"), "the lock ended with the answer: %v", h.locks())
	next := v.begin("count.php")
	h.awaitWaiters(1)
	g.open()
	check(t, next.end(t).mustBeOK(t).number("n") == 2, "the next request did not see the early one's count")
	check(t, v.stored(t, "") == `{"late":true,"n":2}`, "the session is %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestAWorkerThatIsReplacedAfterEachRequestLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 2, pool: []string{"pm.max_requests=1"}})
	v := h.visitor()
	for _, a := range v.together(10, 4, "count.php") {
		a.mustBeOK(t)
	}
	check(t, v.stored(t, "") == `{"n":10}`, "10 requests counted to %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestUploadProgressWorksAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{ini: []string{
		"session.upload_progress.enabled=On", "session.upload_progress.cleanup=Off",
		"session.upload_progress.min_freq=0", "session.upload_progress.freq=1%",
	}})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	content := bytes.Repeat([]byte("coat"), 64<<10)
	a := v.upload(t, content)
	check(t, a.number("size") == len(content) && a.fact("done") == true, "the upload did not arrive: %s", a)
	check(t, a.number("processed") >= len(content), "the progress does not tell the size: %s", a)
	check(t, a.number("n") == 2, "the session was lost: %s", a)
	h.awaitNoLocks()
}

func (v *visitor) upload(t *testing.T, content []byte) *answer {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("PHP_SESSION_UPLOAD_PROGRESS", "e2e"); err != nil {
		t.Fatal(err)
	}
	part, err := form.CreateFormFile("file", "coat.bin")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(content)
	form.Close()
	return v.send("POST", "upload.php", form.FormDataContentType(), &body).mustBeOK(t)
}

func TestAThousandRoundsLeakNoDescriptorAndNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1, pool: []string{"process.dumpable=yes"}, ini: []string{"max_execution_time=120"}})
	v := h.visitor()
	pid := v.get("rounds.php?rounds=10").mustBeOK(t).number("pid")
	before := descriptors(t, pid)
	a := v.get("rounds.php?rounds=1000").mustBeOK(t)
	check(t, a.number("pid") == pid && a.number("rounds") == 1000 && a.number("n") == 1000, "the rounds: %s", a)
	after := descriptors(t, pid)
	t.Logf("1,000 rounds took %s; %d descriptors before, %d after", a.took.Round(time.Millisecond), before, after)
	// One more or less is the connection of the request, which closes while we look.
	check(t, after <= before+1, "%d descriptors before, %d after", before, after)
	h.awaitNoLocks()
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

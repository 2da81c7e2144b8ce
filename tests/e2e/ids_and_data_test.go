package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// oddIDs are session ids that PHP's own handler does not take, or not as they are.
var oddIDs = map[string]string{
	"a slash":            "../../etc/passwd",
	"a dot":              "with.dot",
	"a colon":            "tenant:key",
	"a per cent sign":    "100%",
	"an underscore":      "under_score",
	"an umlaut":          "schön",
	"5,000 characters":   strings.Repeat("x", 5000),
	"257 characters":     strings.Repeat("x", 257),
	"nothing":            "",
	"a blank and quotes": `a "b" 'c'`,
}

func TestOddIDsAreRefusedAsPHPsOwnHandlerRefusesThem(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	for name, id := range oddIDs {
		t.Run(name, func(t *testing.T) {
			v := &visitor{h: h, id: url.PathEscape(id)}
			for _, strict := range []string{"0", "1"} {
				query := "start.php?ini[session.use_strict_mode]=" + strict + "&"
				ours, files := v.get(query), v.get(query+h.filesHandler())
				check(t, ours.ok() && files.ok(), "no answer: %s and %s", ours, files)
				check(t, ours.fact("started") == files.fact("started"),
					"strict %s: started by coatcheck %v, by files %v: %s", strict, ours.fact("started"), files.fact("started"), ours)
				replaced, filesReplaced := ours.cookie != "", files.cookie != ""
				check(t, replaced == filesReplaced, "strict %s: new id by coatcheck %t, by files %t", strict, replaced, filesReplaced)
				check(t, (ours.warning() != "") == (ours.fact("started") == false), "a refusal warns, a start does not: %s", ours)
			}
		})
	}
	for _, r := range h.records() {
		check(t, len(r.ID) == len("123456…") && !strings.ContainsAny(r.ID, "./:%_ \x00"), "a record under an odd id: %v", r)
	}
	h.awaitNoLocks()
}

// PHP's own handler reads an id up to its first NUL, so that two ids are one session. Here no such id is a session.
func TestAnIDWithANULIsRefusedAndNotCut(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := &visitor{h: h, id: "before%00after"}
	a := v.get("start.php").mustWarn(t, "characters other than")
	check(t, a.fact("started") == false && len(h.records()) == 0, "a session was started: %s, %v", a, h.records())
	strict := v.get("start.php?ini[session.use_strict_mode]=1").mustBeOK(t)
	check(t, strict.fact("started") == true && len(strict.cookie) >= 32, "strict mode gave no new id: %s", strict)
}

func TestARefusedIDIsNamedInTheWarning(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := &visitor{h: h, id: url.PathEscape("tenant:key")}
	a := v.get("start.php").mustWarn(t, "characters other than A-Z", "nothing was sent")
	check(t, a.fact("started") == false, "a session was started: %s", a)
	check(t, len(h.records()) == 0, "records: %v", h.records())
}

func TestEveryVisitorWithAnEmptyIDGetsASessionOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	ids := make(map[string]bool)
	for range 3 {
		nobody := &visitor{h: h, id: `""`}
		a := nobody.get("count.php").mustBeOK(t)
		check(t, a.number("n") == 1 && len(a.text("id")) >= 32, "the empty id is a session: %s", a)
		ids[a.text("id")] = true
	}
	check(t, len(ids) == 3, "visitors share sessions: %v", ids)
}

func TestKeysAreNotBuiltByJoiningStrings(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	for _, pair := range [][2]string{{"ab", "cdef"}, {"abc", "def"}, {"", "abcdef"}, {"a:b", "cdef"}, {"a", "b-cdef"}} {
		v := &visitor{h: h, id: pair[1]}
		a := v.get("count.php?ini[coatcheck.prefix]=" + url.QueryEscape(pair[0])).mustBeOK(t)
		check(t, a.number("n") == 1, "prefix %q and id %q meet a session that is there already", pair[0], pair[1])
	}
	check(t, len(h.records()) == 5, "records: %v", h.records())
}

func TestTheSavePathCarriesSettings(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	path := "ini[session.save_path]=" + url.QueryEscape("unix://"+h.socket+"?prefix=shop&lock_wait=0.1&lock_failure=fail")
	v.get("count.php").mustBeOK(t)
	holder := v.begin("count.php?until=" + g.path + "&" + path)
	h.awaitHolder(v)
	a := v.get("count.php?"+path).mustWarn(t, "is busy after 0.1 s", "lock_failure=fail")
	check(t, a.fact("started") == false, "lock_failure of the save_path is not heeded: %s", a)
	g.open()
	check(t, holder.end(t).mustBeOK(t).number("n") == 1, "the prefix of the save_path is not heeded")
}

// large are settings for sessions of many mebibytes on a slow machine.
var large = []string{"memory_limit=512M", "coatcheck.timeout_ms=60000"}

func TestDataComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	const frame = 16 << 20
	h := open(t, plan{ini: large})
	for _, value := range []struct {
		name, kind string
		size       int
	}{
		{"nothing", "random", 0},
		{"one NUL", "nul", 1},
		{"NULs", "nul", 5000},
		{"separators and bytes that are no UTF-8", "odd", 300},
		{"1 MiB random", "random", 1 << 20},
		{"almost a whole frame", "random", frame - 4<<10},
	} {
		t.Run(value.name, func(t *testing.T) {
			h.visitor().keeps(t, value.kind, value.size)
		})
	}
	h.awaitNoLocks()
}

// keeps stores a value and compares what another request finds, through PHP's own SessionHandler too.
func (v *visitor) keeps(t *testing.T, kind string, size int) {
	t.Helper()
	for _, proxy := range []string{"", "&proxy=1"} {
		stored := v.get(fmt.Sprintf("store.php?kind=%s&size=%d%s", kind, size, proxy)).mustBeOK(t)
		fetched := v.get("fetch.php?" + proxy).mustBeOK(t)
		check(t, len(stored.text("hash")) == 40 && fetched.text("hash") == stored.text("hash"),
			"stored %s, found %s", stored, fetched)
	}
}

func TestSixteenMebibytesFitIntoALargerFrame(t *testing.T) {
	t.Parallel()
	h := open(t, plan{ini: large, daemon: []string{"COATCHECK_LIMITS_MAX_FRAME=17MiB"}})
	h.visitor().keeps(t, "random", 16<<20)
	h.awaitNoLocks()
}

func TestDataAboveTheFrameLimitAreRefusedWithSizeAndLimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct {
		setting string
		bytes   int
	}{
		"default": {"", 16 << 20},
		"64KiB":   {"COATCHECK_LIMITS_MAX_FRAME=64KiB", 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan{workers: 1, ini: large}
			if limit.setting != "" {
				p.daemon = []string{limit.setting}
			}
			h := open(t, p)
			v := h.visitor()
			v.get("count.php").mustBeOK(t)
			a := v.get(fmt.Sprintf("store.php?kind=random&size=%d", limit.bytes))
			a.mustWarn(t, "is not written", fmt.Sprintf("limit of %d bytes", limit.bytes), fmt.Sprintf("request of %d", limit.bytes/10000))
			h.awaitNoLocks()
			check(t, v.stored(t, "") == `{"n":1}`, "after the refusal something else is stored")
			next := v.get("count.php").mustBeOK(t)
			check(t, next.number("n") == 2 && next.number("pid") == a.number("pid"), "the worker did not go on: %s", next)
		})
	}
}

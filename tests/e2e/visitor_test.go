package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// visitor is somebody with a session cookie. Its methods may be called in parallel.
type visitor struct {
	h  *house
	id string // sent as the cookie; not sent when empty
}

// visitor returns one who comes with a session id of its own, as after an earlier visit.
func (h *house) visitor() *visitor {
	random := make([]byte, 16)
	rand.Read(random)
	return &visitor{h: h, id: hex.EncodeToString(random)}
}

// short is a session id or token as it may be shown.
func short(id string) string { return id[:min(len(id), 6)] + "…" }

// answer is what came back.
type answer struct {
	err    error // nil when the answer is whole
	status int
	body   string
	cookie string // the session id that the script set, if any
	took   time.Duration
}

// get asks for a script; its query may carry ini[name]=value settings.
func (v *visitor) get(script string) *answer { return v.send(http.MethodGet, script, "", nil) }

func (v *visitor) send(method, script, contentType string, body io.Reader) *answer {
	began := time.Now()
	request, err := http.NewRequest(method, v.h.front.URL+"/"+script, body)
	if err != nil {
		return &answer{err: err}
	}
	if v.id != "" {
		request.Header.Set("Cookie", "PHPSESSID="+v.id)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	a := v.h.fetch(request)
	a.took = time.Since(began)
	return a
}

func (h *house) fetch(request *http.Request) *answer {
	response, err := h.client.Do(request)
	if err != nil {
		return &answer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := &answer{err: err, status: response.StatusCode, body: string(body)}
	for _, c := range response.Cookies() {
		if c.Name == "PHPSESSID" {
			a.cookie = c.Value
		}
	}
	return a
}

func (a *answer) String() string {
	const shown = 2000
	return fmt.Sprintf("status %d, error %v, after %s:\n%s", a.status, a.err, a.took.Round(time.Millisecond),
		a.body[:min(len(a.body), shown)])
}

// ok says that the script ran to its end.
func (a *answer) ok() bool { return a.err == nil && a.status == http.StatusOK }

// fact returns what the script said under this name, or nil.
func (a *answer) fact(name string) any {
	for line := range strings.SplitSeq(a.body, "\n") {
		var facts map[string]any
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &facts) == nil {
			if value, said := facts[name]; said {
				return value
			}
		}
	}
	return nil
}

// number returns a fact that is a number, or -1.
func (a *answer) number(name string) int {
	if n, ok := a.fact(name).(float64); ok {
		return int(n)
	}
	return -1
}

// text returns a fact that is a string, or "".
func (a *answer) text(name string) string {
	s, _ := a.fact(name).(string)
	return s
}

// warnings returns what PHP complained about, one line each.
func (a *answer) warnings() []string {
	var found []string
	for line := range strings.SplitSeq(a.body, "\n") {
		for _, kind := range []string{"Warning: ", "Notice: ", "Deprecated: ", "Fatal error: ", "PHP "} {
			if strings.HasPrefix(line, kind) {
				found = append(found, line)
			}
		}
	}
	return found
}

// warning returns the extension's own warning, or "".
func (a *answer) warning() string {
	for _, line := range a.warnings() {
		if strings.Contains(line, "coatcheck at ") {
			return line
		}
	}
	return ""
}

// mustBeOK fails the test unless the script ran to its end without a complaint.
func (a *answer) mustBeOK(t *testing.T) *answer {
	t.Helper()
	check(t, a.ok() && len(a.warnings()) == 0, "the page is not in order: %s", a)
	return a
}

// mustWarn fails the test unless the extension's warning has all these words.
func (a *answer) mustWarn(t *testing.T, words ...string) *answer {
	t.Helper()
	for _, word := range words {
		check(t, strings.Contains(a.warning(), word), "no warning says %q: %s", word, a)
	}
	return a
}

// pending is a request on its way.
type pending struct{ done chan *answer }

// begin sends a request and does not wait for its answer.
func (v *visitor) begin(script string) *pending {
	p := &pending{done: make(chan *answer, 1)}
	go func() { p.done <- v.get(script) }()
	return p
}

// end waits for the answer.
func (p *pending) end(t *testing.T) *answer {
	t.Helper()
	select {
	case a := <-p.done:
		return a
	case <-time.After(30 * time.Second):
		t.Fatal("no answer within 30 s")
		return nil
	}
}

// isOver says whether the answer is there already.
func (p *pending) isOver() bool { return len(p.done) > 0 }

// together sends n requests, at most `abreast` at a time, and returns their answers.
func (v *visitor) together(n, abreast int, script string) []*answer {
	answers := make([]*answer, n)
	slots := make(chan struct{}, abreast)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			answers[i] = v.get(script)
		})
	}
	all.Wait()
	return answers
}

// stored returns the session's data as a later request reads them, without a lock left by it.
func (v *visitor) stored(t *testing.T, settings string) string {
	t.Helper()
	a := v.get("read.php?" + settings).mustBeOK(t)
	data, err := json.Marshal(a.fact("data"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

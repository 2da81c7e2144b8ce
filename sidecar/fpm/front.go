package fpm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// maxStderrLine and maxStderrLines bound what one request may write into the log.
	maxStderrLine  = 1 << 10
	maxStderrLines = 32

	// maxPooledHead is the largest request buffer kept for the next request.
	maxPooledHead = 128 << 10

	// maxLoggedPath bounds how much of a path goes into the log.
	maxLoggedPath = 256
)

// Front is an [http.Handler] that serves a document root through php-fpm.
type Front struct {
	cfg     Config
	site    *site
	dialer  *dialer
	heads   sync.Pool // of *[]byte: requests on their way out
	answers sync.Pool // of *bufio.Reader: answers on their way in
}

// NewFront opens the document root of cfg and returns a Front for it. It does not connect to php-fpm yet. The
// caller closes the Front when the HTTP server has stopped.
func NewFront(cfg Config) (*Front, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	network, address, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	s, err := openSite(cfg.Docroot, cfg.Fallback)
	if err != nil {
		return nil, err
	}
	f := &Front{cfg: cfg, site: s, dialer: newDialer(network, address, cfg)}
	f.heads.New = func() any { b := make([]byte, 0, 4<<10); return &b }
	f.answers.New = func() any { return bufio.NewReaderSize(nil, cfg.MaxHeaderLine) }
	return f, nil
}

// openSite opens a document root. The fallback's existence is checked with each request, as other scripts' is.
func openSite(docroot, fallback string) (*site, error) {
	dir, err := filepath.Abs(docroot)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("fpm: document root: %w", err)
	}
	fallback = strings.TrimPrefix(fallback, "/")
	if fallback != "" && (!filepath.IsLocal(fallback) || !strings.HasSuffix(fallback, ".php")) {
		return nil, fmt.Errorf("fpm: fallback %q is not a .php file below the document root", fallback)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("fpm: document root: %w", err)
	}
	return &site{dir: dir, root: root, fallback: fallback}, nil
}

// Close closes the document root. Scripts in flight run to their end.
func (f *Front) Close() error { return f.site.root.Close() }

// ServeHTTP answers one request with a script's answer, a static file, a redirect to a directory's name with its
// slash, or one of the refusals.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := f.site.find(r.URL)
	switch {
	case err != nil:
	case p.redirect != "":
		redirect(w, r, p.redirect)
	case p.file != "":
		err = f.serveFile(w, r, p.file)
	default:
		err = f.serveScript(w, r, p)
	}
	if err != nil {
		f.refuse(w, r, err)
	}
}

// redirect sends the visitor to a directory's name with its slash. The path begins with one slash, never two, so
// it stays on this host.
func redirect(w http.ResponseWriter, r *http.Request, path string) {
	target := url.URL{Path: path, RawQuery: r.URL.RawQuery}
	status := http.StatusMovedPermanently
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		status = http.StatusPermanentRedirect
	}
	w.Header().Set("Location", target.String())
	w.WriteHeader(status)
}

func (f *Front) serveFile(w http.ResponseWriter, r *http.Request, name string) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return fmt.Errorf("%w: %s on a static file", ErrMethod, r.Method)
	}
	file, info, err := f.site.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", contentType(name))
	http.ServeContent(w, r, "", info.ModTime(), file)
	return nil
}

// contentType goes by the name alone: guessing by content could turn an upload into a page.
func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// serveScript runs a script. An error means that nothing was sent to the visitor yet.
func (f *Front) serveScript(w http.ResponseWriter, r *http.Request, p page) error {
	b, err := readBody(w, r, &f.cfg)
	if err != nil {
		return err
	}
	defer b.close()

	pooled := f.heads.Get().(*[]byte)
	defer f.putHead(pooled)
	head, err := f.appendHead((*pooled)[:0], r, p, b.size)
	*pooled = head
	if err != nil {
		return err
	}

	answer := f.answers.Get().(*bufio.Reader)
	defer f.putAnswer(answer)
	log := &stderrLog{front: f, request: r, script: p.script}
	defer log.end()
	x, err := f.start(r.Context(), head, b, answer, log.write)
	if err != nil {
		return err
	}
	return f.passOn(w, r, x)
}

// passOn passes an answer on to the visitor. An error means that nothing was sent yet; a failure after that cuts
// the visitor's connection, because that is the only way left to say that the answer is not whole.
func (f *Front) passOn(w http.ResponseWriter, r *http.Request, x *exchange) error {
	header := make(http.Header, 8)
	status, err := x.readHead(header)
	if err != nil {
		x.finish()
		return err
	}
	h := w.Header()
	h["Content-Type"] = nil // none unless the script sends one; never guessed
	for name, values := range header {
		h[name] = values
	}
	w.WriteHeader(status)
	out := newVisitor(w, f.cfg.Timeout)
	err = x.copyBody(out, out.flush)
	out.end()
	if bodyErr := x.finish(); errors.Is(bodyErr, ErrSpool) {
		err = bodyErr
	}
	if err != nil {
		f.logFailure(r, status, err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// visitor writes an answer to the visitor, who must accept each piece within the time-out.
type visitor struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	written int
	timed   bool
}

func newVisitor(w http.ResponseWriter, timeout time.Duration) *visitor {
	return &visitor{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (v *visitor) Write(p []byte) (int, error) {
	// The first bytes go into a buffer and cannot block.
	if v.written += len(p); v.written > 2<<10 {
		v.arm()
	}
	return v.w.Write(p)
}

func (v *visitor) flush() error {
	v.arm()
	err := v.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

func (v *visitor) arm() {
	v.timed = true
	v.control.SetWriteDeadline(time.Now().Add(v.timeout))
}

// end takes the deadline away again, for the next answer on the connection.
func (v *visitor) end() {
	if v.timed {
		v.control.SetWriteDeadline(time.Time{})
	}
}

func (f *Front) putHead(b *[]byte) {
	if cap(*b) <= maxPooledHead {
		f.heads.Put(b)
	}
}

func (f *Front) putAnswer(r *bufio.Reader) {
	r.Reset(nil)
	f.answers.Put(r)
}

// refuse answers a request that failed before anything was sent.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	row := refusalOf(err)
	f.logFailure(r, row.status, err)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(row.status)
	if r.Method != http.MethodHead {
		io.WriteString(w, row.sentence+"\n")
	}
}

// logFailure writes one line. A visitor's mistake is worth less attention than a failure of php-fpm.
func (f *Front) logFailure(r *http.Request, status int, err error) {
	level := slog.LevelDebug
	if refusalOf(err).status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	f.cfg.Logger.LogAttrs(r.Context(), level, "request failed",
		slog.String("method", r.Method), slog.String("path", loggedPath(r)),
		slog.String("remote", r.RemoteAddr), slog.Int("status", status), slog.Any("error", err))
}

func loggedPath(r *http.Request) string {
	return r.URL.EscapedPath()[:min(len(r.URL.EscapedPath()), maxLoggedPath)]
}

// stderrLog passes PHP's error stream on to the log, line by line and within bounds.
type stderrLog struct {
	front   *Front
	request *http.Request
	script  string
	line    []byte
	lines   int
}

func (l *stderrLog) write(piece []byte) {
	for len(piece) > 0 {
		line, rest, whole := bytes.Cut(piece, []byte{'\n'})
		l.line = append(l.line, line[:min(len(line), maxStderrLine-len(l.line))]...)
		if whole {
			l.end()
		}
		piece = rest
	}
}

// end logs the current line.
func (l *stderrLog) end() {
	if len(l.line) == 0 {
		return
	}
	if l.lines++; l.lines <= maxStderrLines {
		l.front.cfg.Logger.LogAttrs(l.request.Context(), slog.LevelWarn, "php wrote to its error stream",
			slog.String("script", l.script), slog.String("line", withoutCookies(string(l.line), l.request)))
	}
	l.line = l.line[:0]
}

// withoutCookies shortens the values of the request's cookies in text, because a session id is a credential.
func withoutCookies(text string, r *http.Request) string {
	const shown = 6
	for _, c := range r.Cookies() {
		if len(c.Value) > shown {
			text = strings.ReplaceAll(text, c.Value, c.Value[:shown]+"…")
		}
	}
	return text
}

package fpm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// memoryBody is how much of a request body is held in memory; the whole of a larger one goes to a file.
const memoryBody = 256 << 10

// body is a whole request body, in memory or in a temporary file that has no name any more.
type body struct {
	memory []byte
	file   *os.File
	size   int64
}

// readBody takes in the whole body of r. It returns ErrBodyTooLarge, ErrBodyTimeout, ErrBodyBroken
// or ErrSpool. The caller closes the body.
func readBody(w http.ResponseWriter, r *http.Request, cfg *Config) (*body, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return &body{}, nil
	}
	if r.ContentLength > cfg.MaxBody {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBodyTooLarge, r.ContentLength, cfg.MaxBody)
	}
	// A writer that knows no deadlines, as in tests, has no slow visitor either.
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(cfg.BodyTimeout))
	b, err := spool(http.MaxBytesReader(w, r.Body, cfg.MaxBody), r.ContentLength, cfg.TempDir)
	if err != nil {
		return nil, bodyError(err)
	}
	// The server goes on reading to notice when the visitor leaves, and must not run into the deadline.
	control.SetReadDeadline(time.Time{})
	return b, nil
}

// bodyError gives an error of reading the body its reason.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, ErrSpool):
		return err
	case errors.As(err, &tooLarge):
		return fmt.Errorf("%w: the limit is %d", ErrBodyTooLarge, tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrBodyTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrBodyBroken, err)
}

// spool reads all of r; size is what it announced, or negative.
func spool(r io.Reader, size int64, dir string) (*body, error) {
	var memory bytes.Buffer
	if 0 < size && size <= memoryBody {
		memory.Grow(int(size) + bytes.MinRead)
	}
	n, err := memory.ReadFrom(io.LimitReader(r, memoryBody+1))
	if err != nil {
		return nil, err
	}
	if n <= memoryBody {
		return &body{memory: memory.Bytes(), size: n}, nil
	}
	return spoolToFile(memory.Bytes(), r, dir)
}

func spoolToFile(head []byte, r io.Reader, dir string) (*body, error) {
	f, err := os.CreateTemp(dir, "coatcheck-body-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
	}
	b := &body{file: f}
	// Without a name nobody else opens it, and it goes away with this process.
	if err := os.Remove(f.Name()); err != nil {
		b.close()
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
	}
	b.size, err = io.Copy(spoolWriter{f}, io.MultiReader(bytes.NewReader(head), r))
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// spoolWriter marks the errors of writing, to tell them from those of reading.
type spoolWriter struct{ f *os.File }

func (w spoolWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSpool, err)
	}
	return n, err
}

// reader returns the body from its start. It may be called again after an attempt that failed.
func (b *body) reader() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return bytes.NewReader(b.memory)
}

func (b *body) close() {
	if b.file != nil {
		b.file.Close()
	}
}

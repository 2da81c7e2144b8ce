package fpm

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// page is what stands behind a request's path: exactly one of script, file and redirect is set.
type page struct {
	script   string // the script's name below the document root, without a leading slash
	pathInfo string // what follows the script in the path, with its leading slash, or ""
	file     string // a static file's name below the document root
	redirect string // the path with the slash that a directory needs
}

// site is a document root. All look-ups go through an os.Root, so no symlink leads out of it.
type site struct {
	dir      string // absolute, symlinks resolved
	root     *os.Root
	fallback string // a script's name, or ""
}

// indexes are the files that answer for a directory.
var indexes = []string{"index.php", "index.html"}

// find returns the page behind u. It returns ErrPath for a path that is a trick, and ErrNotFound.
//
// The first part of the path that ends in ".php" and is no directory decides: if it is a regular
// file it is the script, and the rest is PATH_INFO; if not, nothing is served, whatever the rest names.
func (s *site) find(u *url.URL) (page, error) {
	names, err := splitPath(u)
	if err != nil {
		return page{}, err
	}
	p, err := s.lookUp(u.Path, names)
	if errors.Is(err, ErrNotFound) && s.fallback != "" {
		return page{script: s.fallback}, nil
	}
	return p, err
}

// splitPath returns the parts of u's path, without empty ones.
func splitPath(u *url.URL) ([]string, error) {
	if !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("%w: it does not begin with a slash", ErrPath)
	}
	// An encoded slash means one thing to a front and another to a script, so it means nothing here.
	if escaped := strings.ToLower(u.EscapedPath()); strings.Contains(escaped, "%2f") {
		return nil, fmt.Errorf("%w: it has an encoded slash", ErrPath)
	}
	if strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
		return nil, fmt.Errorf("%w: it has a control character or a backslash", ErrPath)
	}
	names := strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' })
	for _, name := range names {
		if name == "." || name == ".." {
			return nil, fmt.Errorf("%w: it has the part %q", ErrPath, name)
		}
	}
	return names, nil
}

func (s *site) lookUp(path string, names []string) (page, error) {
	for i, name := range names {
		if isHidden(name) && !(i == 0 && name == ".well-known") {
			return page{}, fmt.Errorf("%w: it is hidden", ErrNotFound)
		}
	}
	for i, name := range names {
		if !strings.HasSuffix(name, ".php") {
			continue
		}
		script := strings.Join(names[:i+1], "/")
		info, err := s.stat(script)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%w: the script is not a regular file", ErrNotFound)
		}
		return page{script: script, pathInfo: afterParts(path, i+1)}, err
	}
	return s.lookUpFile(path, names)
}

// lookUpFile finds a static file, or what answers for a directory.
func (s *site) lookUpFile(path string, names []string) (page, error) {
	name := "."
	if len(names) > 0 {
		name = strings.Join(names, "/")
	}
	info, err := s.stat(name)
	asDir := strings.HasSuffix(path, "/")
	switch {
	case err != nil:
		return page{}, err
	case info.IsDir() && !asDir:
		return page{redirect: "/" + name + "/"}, nil
	case info.IsDir():
		return s.lookUpIndex(name)
	case asDir:
		return page{}, fmt.Errorf("%w: a file is not a directory", ErrNotFound)
	case !info.Mode().IsRegular() || holdsSource(names[len(names)-1]):
		return page{}, fmt.Errorf("%w: it is not to be served", ErrNotFound)
	}
	return page{file: name}, nil
}

func (s *site) lookUpIndex(dir string) (page, error) {
	for _, index := range indexes {
		name := strings.TrimPrefix(dir+"/"+index, "./")
		info, err := s.stat(name)
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasSuffix(index, ".php"):
			return page{script: name}, nil
		default:
			return page{file: name}, nil
		}
	}
	return page{}, fmt.Errorf("%w: the directory has no index", ErrNotFound)
}

func (s *site) stat(name string) (fs.FileInfo, error) {
	info, err := s.root.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return info, nil
}

// open opens a static file. Without O_NONBLOCK, a pipe put in its place would hang the request.
func (s *site) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, fmt.Errorf("%w: it is not a regular file", ErrNotFound)
	}
	return f, info, nil
}

// afterParts returns what follows the first n non-empty parts of path.
func afterParts(path string, n int) string {
	rest := path
	for range n {
		rest = strings.TrimLeft(rest, "/")
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			rest = rest[i:]
		} else {
			rest = ""
		}
	}
	return rest
}

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

// holdsSource reports whether a file of this name is likely to hold program text, as an editor's copy of a
// script does.
func holdsSource(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{".php", ".phtml", ".phar"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, ".inc") || strings.HasSuffix(name, "~")
}

package fpm

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// appendHead appends the records that open a request and hold its params. php-fpm wants each param whole
// within one record, so they are sent as one. It returns ErrRequestHeadTooLarge if they do not fit.
func (f *Front) appendHead(b []byte, r *http.Request, p page, bodySize int64) ([]byte, error) {
	b = appendBegin(b)
	start := len(b)
	b = appendRecordHeader(b, typeParams, 0)
	b = f.appendScript(b, r, p)
	b = appendPeer(b, r)
	if bodySize > 0 || r.ContentLength >= 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		b = appendParam(b, "CONTENT_LENGTH", strconv.FormatInt(bodySize, 10))
	}
	b = appendHeaders(b, r)
	length := len(b) - start - recordHeaderLen
	if length > maxRecord {
		return b, fmt.Errorf("%w: %d bytes, the limit is %d", ErrRequestHeadTooLarge, length, maxRecord)
	}
	appendRecordHeader(b[:start], typeParams, length) // in place, now that the length is known
	return appendRecordHeader(b, typeParams, 0), nil
}

// appendScript appends the params that say which script is asked for, and how.
func (f *Front) appendScript(b []byte, r *http.Request, p page) []byte {
	b = appendParam(b, "SCRIPT_FILENAME", f.site.dir+"/"+p.script)
	b = appendParam(b, "SCRIPT_NAME", "/"+p.script)
	b = appendParam(b, "DOCUMENT_URI", "/"+p.script+p.pathInfo)
	b = appendParam(b, "DOCUMENT_ROOT", f.site.dir)
	if p.pathInfo != "" {
		b = appendParam(b, "PATH_INFO", p.pathInfo)
		b = appendParam(b, "PATH_TRANSLATED", filepath.Join(f.site.dir, p.pathInfo))
	}
	b = appendParam(b, "REQUEST_METHOD", r.Method)
	b = appendParam(b, "REQUEST_URI", r.URL.RequestURI())
	b = appendParam(b, "QUERY_STRING", r.URL.RawQuery)
	b = appendParam(b, "SERVER_PROTOCOL", r.Proto)
	b = appendParam(b, "GATEWAY_INTERFACE", "CGI/1.1")
	b = appendParam(b, "SERVER_SOFTWARE", "coatcheck")
	return appendParam(b, "REDIRECT_STATUS", "200") // for a PHP built with force-cgi-redirect
}

// appendPeer appends the params that say who speaks to whom.
func appendPeer(b []byte, r *http.Request) []byte {
	scheme, port := "http", "80"
	if r.TLS != nil {
		scheme, port = "https", "443"
		b = appendParam(b, "HTTPS", "on")
	}
	b = appendParam(b, "REQUEST_SCHEME", scheme)
	name := r.Host
	if host, hostPort, err := net.SplitHostPort(r.Host); err == nil {
		name, port = host, hostPort
	}
	b = appendParam(b, "SERVER_NAME", name)
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if addr, localPort, err := net.SplitHostPort(local.String()); err == nil {
			b = appendParam(b, "SERVER_ADDR", addr)
			port = localPort
		}
	}
	b = appendParam(b, "SERVER_PORT", port)
	if addr, remotePort, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		b = appendParam(b, "REMOTE_ADDR", addr)
		b = appendParam(b, "REMOTE_PORT", remotePort)
	}
	return b
}

// appendHeaders appends the request's headers, each once. A name that would turn into the variable of
// another header, or into one that programs trust (httpoxy), is left out.
func appendHeaders(b []byte, r *http.Request) []byte {
	if contentType := r.Header.Get("Content-Type"); contentType != "" {
		b = appendParam(b, "CONTENT_TYPE", contentType)
	}
	b = appendParam(b, "HTTP_HOST", r.Host)
	for name, values := range r.Header {
		variable, ok := headerVariable(name)
		if !ok {
			continue
		}
		separator := ", "
		if name == "Cookie" {
			separator = "; "
		}
		value := values[0]
		if len(values) > 1 {
			value = strings.Join(values, separator)
		}
		b = appendParam(b, variable, value)
	}
	return b
}

// usualVariables spares the most frequent headers their conversion.
var usualVariables = map[string]string{
	"Accept":                    "HTTP_ACCEPT",
	"Accept-Encoding":           "HTTP_ACCEPT_ENCODING",
	"Accept-Language":           "HTTP_ACCEPT_LANGUAGE",
	"Authorization":             "HTTP_AUTHORIZATION",
	"Cache-Control":             "HTTP_CACHE_CONTROL",
	"Connection":                "HTTP_CONNECTION",
	"Cookie":                    "HTTP_COOKIE",
	"Origin":                    "HTTP_ORIGIN",
	"Referer":                   "HTTP_REFERER",
	"Upgrade-Insecure-Requests": "HTTP_UPGRADE_INSECURE_REQUESTS",
	"User-Agent":                "HTTP_USER_AGENT",
	"X-Forwarded-For":           "HTTP_X_FORWARDED_FOR",
	"X-Forwarded-Proto":         "HTTP_X_FORWARDED_PROTO",
	"X-Requested-With":          "HTTP_X_REQUESTED_WITH",
}

// headerVariable returns the CGI variable of a header, or false if the header is not passed on: Proxy
// would become HTTP_PROXY, and X_User the same as X-User.
func headerVariable(name string) (string, bool) {
	if v, ok := usualVariables[name]; ok {
		return v, true
	}
	switch name {
	case "Proxy", "Content-Type", "Content-Length", "Host", "Transfer-Encoding":
		return "", false
	}
	v := []byte("HTTP_" + name)
	for i := len("HTTP_"); i < len(v); i++ {
		switch c := v[i]; {
		case 'a' <= c && c <= 'z':
			v[i] = c - 'a' + 'A'
		case c == '-':
			v[i] = '_'
		case 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
		default:
			return "", false
		}
	}
	return string(v), true
}

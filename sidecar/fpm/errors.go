package fpm

import (
	"errors"
	"net/http"
)

// The reasons for which a request is refused or fails. Each has one status code and one sentence
// for the visitor in the table of refusals.
var (
	// ErrUnavailable is returned when php-fpm cannot be reached at its address.
	ErrUnavailable = errors.New("php-fpm cannot be reached")

	// ErrBusy is returned when php-fpm's queue of waiting connections is full, or when it says that it is overloaded.
	ErrBusy = errors.New("php-fpm's queue is full")

	// ErrTimeout is returned when php-fpm stayed silent for longer than Config.Timeout.
	ErrTimeout = errors.New("php-fpm did not answer in time")

	// ErrBrokenOff is returned when php-fpm closed the connection before the end of its answer,
	// as it does when a worker is killed.
	ErrBrokenOff = errors.New("php-fpm's answer broke off")

	// ErrMalformed is returned when php-fpm's answer is not FastCGI, or its head is not CGI.
	ErrMalformed = errors.New("php-fpm's answer is malformed")

	// ErrHeaderTooLong is returned when a header line of the script's answer is longer than
	// Config.MaxHeaderLine, or all of them together longer than maxResponseHead.
	ErrHeaderTooLong = errors.New("a response header line is too long")

	// ErrVisitorGone is returned when the visitor left before the end of the answer.
	ErrVisitorGone = errors.New("the visitor left")

	// ErrBodyTooLarge is returned when the request body is larger than Config.MaxBody.
	ErrBodyTooLarge = errors.New("the request body is too large")

	// ErrBodyTimeout is returned when the request body took longer than Config.BodyTimeout to arrive.
	ErrBodyTimeout = errors.New("the request body did not arrive in time")

	// ErrBodyBroken is returned when the request body broke off or was badly encoded.
	ErrBodyBroken = errors.New("the request body broke off")

	// ErrSpool is returned when the request body cannot be written to a temporary file.
	ErrSpool = errors.New("the request body cannot be spooled")

	// ErrRequestHeadTooLarge is returned when a request's headers do not fit one FastCGI record.
	ErrRequestHeadTooLarge = errors.New("the request headers are too large")

	// ErrPath is returned when a request's path tries to leave the document root or is ambiguous.
	ErrPath = errors.New("the path is not allowed")

	// ErrNotFound is returned when no file that may be served stands behind a path.
	ErrNotFound = errors.New("no such page")

	// ErrMethod is returned when a static file is asked for with a method other than GET and HEAD.
	ErrMethod = errors.New("the method is not allowed")
)

// refusal says how one error looks to a visitor.
type refusal struct {
	err      error
	status   int
	sentence string
}

// refusals is the whole table of errors and their answers; the first match counts.
var refusals = [...]refusal{
	{ErrUnavailable, http.StatusBadGateway, "The PHP workers cannot be reached. Please try again in a moment."},
	{ErrBusy, http.StatusServiceUnavailable, "All PHP workers are busy and their queue is full. Please try again in a moment."},
	{ErrTimeout, http.StatusGatewayTimeout, "The PHP script did not answer in time."},
	{ErrHeaderTooLong, http.StatusBadGateway, "The PHP script sent a header line that is too long."},
	{ErrBrokenOff, http.StatusBadGateway, "The PHP worker ended before it had answered."},
	{ErrMalformed, http.StatusBadGateway, "The PHP script's answer could not be understood."},
	{ErrBodyTooLarge, http.StatusRequestEntityTooLarge, "The request body is larger than this server accepts."},
	{ErrBodyTimeout, http.StatusRequestTimeout, "The request body did not arrive in time."},
	{ErrBodyBroken, http.StatusBadRequest, "The request body could not be read to its end."},
	{ErrSpool, http.StatusInternalServerError, "The request body could not be stored for the PHP workers."},
	{ErrRequestHeadTooLarge, http.StatusRequestHeaderFieldsTooLarge, "The request headers are larger than this server accepts."},
	{ErrPath, http.StatusBadRequest, "The path of this request is not allowed."},
	{ErrNotFound, http.StatusNotFound, "There is no such page here."},
	{ErrMethod, http.StatusMethodNotAllowed, "This file can only be read."},
	{ErrVisitorGone, 499, "The visitor left."},
}

// refusalOf returns the row of the table for err; an error without a row is a server error.
func refusalOf(err error) refusal {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return refusal{err, http.StatusInternalServerError, "The server could not handle this request."}
}

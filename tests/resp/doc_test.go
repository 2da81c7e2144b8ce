// Package resp holds the tests of the Redis-protocol endpoint from outside: beside a real redis-server, and with the clients
// that people use. It needs redis-server 7, redis-cli and redis-benchmark, and for the PHP clients php with its redis
// extension and Debian's Illuminate packages. What is missing is skipped, except in CI.
package resp

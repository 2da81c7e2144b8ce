#include "connection.h"
#include "php_coatcheck.h"
#include "php_coatcheck_compat.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define COAT_RECEIVE_CHUNK (16 * 1024)
#define COAT_PAUSE_MS 10

/* A worker that serves many tenants, each by a socket of its own, keeps no more than these open. */
#define COAT_CONNECTIONS_MAX 16
#define COAT_WAIT_SLICE_MS 1000

/* ---- the process ---- */

/* glibc's getpid() is a system call, and a locked request would make four. The pid changes in a forked
 * child only, which forgets the parent's before it runs anything of ours. One for all threads. */
static pid_t coat_known_pid;

static void coat_forget_pid(void)
{
	coat_known_pid = 0;
}

bool coat_watch_forks(void)
{
	return pthread_atfork(NULL, NULL, coat_forget_pid) == 0;
}

pid_t coat_pid(void)
{
	if (coat_known_pid == 0) {
		coat_known_pid = getpid();
	}
	return coat_known_pid;
}

int64_t coat_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the list of this thread ---- */

coat_connection *coat_connection_find(const char *socket)
{
	coat_connection *conn = COAT_G(connections);

	while (conn && strcmp(conn->socket, socket) != 0) {
		conn = conn->next;
	}
	return conn;
}

coat_connection *coat_connection_for(const char *socket)
{
	coat_connection *conn = coat_connection_find(socket);

	if (!conn) {
		conn = pecalloc(1, sizeof(*conn), 1);
		conn->socket = pestrdup(socket, 1);
		conn->fd = -1;
		conn->next_id = 1;
		conn->next = COAT_G(connections);
		COAT_G(connections) = conn;
	}
	return conn;
}

void coat_connections_free(coat_connection *connections)
{
	while (connections) {
		coat_connection *next = connections->next;

		coat_connection_close(connections);
		coat_overdue_forget(&connections->overdue);
		coat_buffer_free(&connections->preface);
		coat_buffer_free(&connections->out);
		coat_buffer_free(&connections->in);
		pefree(connections->socket, 1);
		pefree(connections, 1);
		connections = next;
	}
}

/* ---- opening and closing ---- */

void coat_connection_close(coat_connection *conn)
{
	if (conn->fd >= 0) {
		close(conn->fd);
	}
	msgpack_unpacked_destroy(&conn->reply);
	conn->fd = -1;
	conn->mid_exchange = false;
	conn->session_lock = false;
	conn->bound_lock = false;
	conn->max_frame = 0;
	conn->in.length = 0;
	conn->in_taken = 0;
}

void coat_connection_trim(coat_connection *conn)
{
	coat_buffer_trim(&conn->out);
	if (conn->in_taken == conn->in.length) {
		conn->in_taken = conn->in.length = 0;
		coat_buffer_trim(&conn->in);
	}
}

void coat_connection_pause(void)
{
	poll(NULL, 0, COAT_PAUSE_MS);
}

bool coat_connection_alive(coat_connection *conn)
{
	if (conn->fd < 0) {
		return false;
	}
	/* Whether the daemon is still there needs no asking: if not, sending fails before anything is sent. */
	if (conn->pid == coat_pid() && !conn->mid_exchange && conn->in_taken == conn->in.length) {
		return true;
	}
	coat_connection_close(conn);
	return false;
}

/* Makes receiving wait by itself, a slice at a time, so that a reply needs no poll before it. A recv with a
 * time limit is not taken up again after a signal, so PHP's own time limit still ends the wait. */
static bool coat_receive_in_slices(int fd)
{
	struct timeval slice = {COAT_WAIT_SLICE_MS / 1000, COAT_WAIT_SLICE_MS % 1000 * 1000};

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice)) == 0 &&
	       fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0;
}

/* Makes room for one more: closes the one that was made first of those that hold no lock. */
static void coat_close_surplus(void)
{
	coat_connection *conn, *oldest = NULL;
	int open = 0;

	for (conn = COAT_G(connections); conn; conn = conn->next) {
		if (conn->fd >= 0) {
			open++;
			oldest = conn->session_lock || conn->bound_lock ? oldest : conn;
		}
	}
	if (open >= COAT_CONNECTIONS_MAX && oldest) {
		coat_connection_close(oldest);
	}
}

/* 0, or the errno of the attempt. */
static int coat_try_connect(coat_connection *conn)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int cause;

	if (fd < 0) {
		return errno;
	}
	strncpy(address.sun_path, conn->socket, sizeof(address.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || !coat_receive_in_slices(fd)) {
		cause = errno;
		close(fd);
		return cause;
	}
	if (conn->pid != coat_pid()) {
		coat_overdue_forget(&conn->overdue); /* they are the parent's to send */
	}
	conn->fd = fd;
	conn->pid = coat_pid();
	conn->generation++;
	conn->was_connected = true;
	conn->connected_at = time(NULL);
	conn->server[0] = '\0';
	return 0;
}

static void coat_describe_connect_failure(coat_connection *conn, int cause, zend_long timeout_ms, coat_error *err)
{
	switch (cause) {
		case ENOENT:
			coat_error_set(err, COAT_ERROR_CONNECTION,
				"there is no such socket; is the daemon running (coatcheck serve), and is this its socket?");
			break;
		case EACCES:
		case EPERM:
			coat_error_set(err, COAT_ERROR_CONNECTION,
				"permission denied; user %d must be in the group of the socket and may need to enter its directory",
				(int)geteuid());
			break;
		case ECONNREFUSED:
			coat_error_set(err, COAT_ERROR_CONNECTION,
				"connection refused; the socket is there but no daemon listens on it: start it (coatcheck serve)");
			break;
		case EAGAIN:
			coat_error_set(err, COAT_ERROR_CONNECTION,
				"the daemon did not accept the connection within " ZEND_LONG_FMT
				" ms (coatcheck.connect_timeout_ms); it hangs or is overloaded",
				timeout_ms);
			break;
		default:
			coat_error_set(err, COAT_ERROR_CONNECTION, "cannot connect: %s", strerror(cause));
			break;
	}
}

bool coat_connection_open(coat_connection *conn, zend_long timeout_ms, bool bridge, coat_error *err)
{
	int64_t deadline = coat_now_ms() + timeout_ms;
	int cause;

	coat_close_surplus();
	for (;;) {
		bool restarting;

		cause = coat_try_connect(conn);
		if (cause == 0) {
			return true;
		}
		restarting = bridge && conn->was_connected && (cause == ENOENT || cause == ECONNREFUSED);
		if (!(restarting || cause == EAGAIN || cause == EINTR) || COAT_TIMED_OUT() || coat_now_ms() >= deadline) {
			break;
		}
		coat_connection_pause();
	}
	conn->was_connected = conn->was_connected && (cause == EAGAIN || !bridge);
	coat_describe_connect_failure(conn, cause, timeout_ms, err);
	return false;
}

/* ---- bytes ---- */

static void coat_outgoing_advance(coat_outgoing *outgoing, size_t sent)
{
	struct iovec *part = outgoing->parts;

	outgoing->sent += sent;
	outgoing->left -= sent;
	for (int i = 0; i < outgoing->count && sent > 0; i++, part++) {
		size_t step = MIN(sent, part->iov_len);

		part->iov_base = (char *)part->iov_base + step;
		part->iov_len -= step;
		sent -= step;
	}
}

/* True when bytes went out. What cannot be sent any more is forgotten, because the daemon may have
 * said why before it closed; the end of the stream is then found by receiving. */
static bool coat_send_some(coat_connection *conn, coat_outgoing *outgoing)
{
	struct msghdr message = {.msg_iov = outgoing->parts, .msg_iovlen = outgoing->count};
	ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent >= 0) {
		coat_outgoing_advance(outgoing, (size_t)sent);
		return true;
	}
	if (errno != EAGAIN && errno != EINTR) {
		outgoing->left = 0;
	}
	return false;
}

/* Waits until the socket is ready, the deadline has come or PHP's time is up. The wait is cut into
 * slices because the signal of PHP's time limit may come just before poll or to another thread. */
static coat_io coat_wait(coat_connection *conn, short events, int64_t deadline_ms)
{
	struct pollfd watch = {.fd = conn->fd, .events = events};

	for (;;) {
		int64_t remaining = MAX(0, deadline_ms - coat_now_ms());
		int ready = poll(&watch, 1, COAT_TIMED_OUT() ? 0 : (int)MIN(remaining, COAT_WAIT_SLICE_MS));

		if (ready > 0) {
			return COAT_IO_OK;
		}
		if (ready < 0 && errno != EINTR) {
			return COAT_IO_CLOSED;
		}
		if (COAT_TIMED_OUT()) {
			return COAT_IO_INTERRUPTED;
		}
		if (remaining == 0) {
			return COAT_IO_TIMEOUT;
		}
	}
}

/* One recv takes a whole reply of common size, length and all. */
static coat_io coat_receive_some(coat_connection *conn, int flags)
{
	coat_buffer *in = &conn->in;
	ssize_t received;

	if (conn->in_taken > 0) {
		in->length -= conn->in_taken;
		memmove(in->data, in->data + conn->in_taken, in->length);
		conn->in_taken = 0;
	}
	coat_buffer_reserve(in, COAT_RECEIVE_CHUNK);
	received = recv(conn->fd, in->data + in->length, in->capacity - in->length, flags);
	if (received > 0) {
		in->length += (size_t)received;
		return COAT_IO_OK;
	}
	return received < 0 && (errno == EAGAIN || errno == EINTR) ? COAT_IO_OK : COAT_IO_CLOSED;
}

coat_io coat_connection_step(coat_connection *conn, coat_outgoing *outgoing, int64_t deadline_ms)
{
	coat_io io;

	if (outgoing->left > 0 && coat_send_some(conn, outgoing)) {
		return COAT_IO_OK;
	}
	if (outgoing->left == 0 && !COAT_TIMED_OUT() && deadline_ms - coat_now_ms() > COAT_WAIT_SLICE_MS) {
		return coat_receive_some(conn, 0);
	}
	/* Replies are taken in while requests still wait to go out, or both sides could wait for ever. */
	io = coat_wait(conn, POLLIN | (outgoing->left > 0 ? POLLOUT : 0), deadline_ms);
	return io == COAT_IO_OK ? coat_receive_some(conn, MSG_DONTWAIT) : io;
}

bool coat_connection_next_frame(coat_connection *conn, size_t limit, const char **frame, size_t *length)
{
	const unsigned char *at = (const unsigned char *)conn->in.data + conn->in_taken;
	size_t available = conn->in.length - conn->in_taken;
	size_t claimed;

	*length = 0;
	if (available < 4) {
		return true;
	}
	claimed = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
	if (claimed == 0 || claimed > limit) {
		return false;
	}
	if (available - 4 >= claimed) {
		*frame = (const char *)at + 4;
		*length = claimed;
		conn->in_taken += 4 + claimed;
	}
	return true;
}

void coat_connection_notify(coat_connection *conn, const char *frame, size_t length)
{
	if (conn->fd < 0) {
		return;
	}
	if (conn->pid != coat_pid() || send(conn->fd, frame, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length) {
		coat_connection_close(conn);
	}
}

<?php

/**
 * The functions and classes of the extension. coatcheck_arginfo.h is kept by hand; the test
 * stub_and_extension_agree.phpt compares the two.
 */

namespace {
    /**
     * One request to the daemon; docs/protocol.md has the methods. Waits for the answer as long as
     * coatcheck.timeout_ms and, on top, as long as the call itself asks the daemon to wait; or for
     * exactly $timeoutMs.
     *
     * @throws Coatcheck\Exception
     */
    function coatcheck_call(string $method, array $params = [], ?int $timeoutMs = null): mixed {}

    /**
     * Several requests in one round trip. Each call is [method, params]. The answers have the keys of the calls;
     * in the place of a call that failed stands its Coatcheck\Exception.
     *
     * @throws Coatcheck\Exception when the daemon could not be asked
     */
    function coatcheck_pipeline(array $calls): array {}

    /**
     * The lock of the current session, or null when this handler holds no session.
     *
     * @return array{locked: bool, token_prefix: string, fence: int, waited_ms: int}|null
     */
    function coatcheck_session_info(): ?array {}

    function coatcheck_kv_get(string $key, string $bucket = ""): ?string {}

    /** @return array<string|int, ?string> the values by their key */
    function coatcheck_kv_mget(array $keys, string $bucket = ""): array {}

    /** @return bool|array{bool, ?string} was it set; with $get also the value before */
    function coatcheck_kv_set(string $key, string $value, ?float $ttlSeconds = null, bool $nx = false, bool $xx = false, ?string $ifeq = null, bool $keepttl = false, bool $get = false, string $bucket = ""): bool|array {}

    function coatcheck_kv_setnx(string $key, string $value, ?float $ttlSeconds = null, string $bucket = ""): bool {}

    function coatcheck_kv_del(string|array $key, string $bucket = ""): int {}

    function coatcheck_kv_del_if_eq(string $key, string $value, string $bucket = ""): bool {}

    function coatcheck_kv_exists(string $key, string $bucket = ""): bool {}

    function coatcheck_kv_incr(string $key, string $bucket = ""): int {}

    function coatcheck_kv_decr(string $key, string $bucket = ""): int {}

    /** The new number; null when the key is missing and $create is false. $ttlSeconds is for a new key. */
    function coatcheck_kv_incr_by(string $key, int $delta, ?float $ttlSeconds = null, bool $create = true, ?int $floor = null, string $bucket = ""): ?int {}

    function coatcheck_kv_expire(string $key, float $ttlSeconds, string $bucket = ""): bool {}

    function coatcheck_kv_expire_if_eq(string $key, string $value, float $ttlSeconds, string $bucket = ""): bool {}

    function coatcheck_kv_getdel(string $key, string $bucket = ""): ?string {}

    /** Seconds, rounded up; -1 no expiry; -2 missing. */
    function coatcheck_kv_ttl(string $key, string $bucket = ""): int {}

    /** Milliseconds; -1 no expiry; -2 missing. */
    function coatcheck_kv_pttl(string $key, string $bucket = ""): int {}

    /** @return array{int, list<string>} the next cursor, 0 at the end, and keys */
    function coatcheck_kv_scan(string $prefix = "", int $cursor = 0, int $count = 1000, string $bucket = ""): array {}

    /** Empties the bucket. Sessions and locks stay. */
    function coatcheck_kv_flush_all(string $bucket = ""): bool {}

    /** @return array{value: ?string, version: int}|false false when the time is up */
    function coatcheck_kv_wait(string $key, int $lastVersion, int $timeoutMs, string $bucket = ""): array|false {}

    /* Where no other extension has them, for scripts written for ePHPm. A failure is a warning. */

    function ephpm_kv_get(string $key): ?string {}

    function ephpm_kv_set(string $key, string $value, int $ttl = 0): bool {}

    function ephpm_kv_setnx(string $key, string $value, int $ttl = 0): bool {}

    function ephpm_kv_del(string $key): int|false {}

    function ephpm_kv_del_if_eq(string $key, string $token): bool {}

    function ephpm_kv_exists(string $key): bool {}

    function ephpm_kv_incr(string $key): int|false {}

    function ephpm_kv_decr(string $key): int|false {}

    function ephpm_kv_incr_by(string $key, int $delta): int|false {}

    function ephpm_kv_expire(string $key, int $ttl): bool {}

    function ephpm_kv_ttl(string $key): int|false {}

    function ephpm_kv_pttl(string $key): int|false {}

    function ephpm_kv_flush_all(): bool {}

    /** @return array{value: ?string, version: int}|false */
    function ephpm_kv_wait(string $key, int $last_version, int $timeout_ms): array|false {}
}

namespace Coatcheck {
    /** A request that failed. What has no class of its own, a fault of the daemon, is this one. */
    class Exception extends \RuntimeException
    {
        /** Why, in one word, when the daemon gave one: superseded, not_holder, wait_over, ... */
        public string $reason = "";
        public array $details = [];
    }

    class ConnectionException extends Exception {}
    class TimeoutException extends Exception {}
    class BusyException extends Exception {}
    class RefusedException extends Exception {}
    class UnreachableOwnerException extends Exception {}
    class TooLargeException extends Exception {}
    class ProtocolException extends Exception {}
    class UnavailableException extends Exception {}
}

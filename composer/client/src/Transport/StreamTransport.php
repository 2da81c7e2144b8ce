<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Codec\MalformedMessage;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\Failures;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\ProtocolException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Client\Exception\TooLargeException;

/**
 * Asks over a stream socket of PHP's own: no extension is needed.
 *
 * - Every read and write has a deadline. After a time-out or nonsense the connection is closed, so what arrives is
 *   always the answer to what was asked last.
 * - A connection that breaks is made anew once, when nothing of the request was sent or when every method of it may be
 *   sent twice (see Methods). A daemon that starts or stops is asked again until the connect time limit.
 * - After a fork the child makes a connection of its own and leaves the parent's alone.
 * - Locks bound to the connection end with the PHP request, also on a persistent connection.
 *
 * Nothing connects before the first request.
 */
final class StreamTransport implements Transport
{
    private const PROTOCOL_VERSION = 1;
    private const CLIENT = 'coatcheck-client/1.0.0';
    private const DEFAULT_MAX_FRAME = 16 * 1024 * 1024;

    /** What limits.max_frame of a daemon can be at most. */
    private const HIGHEST_MAX_FRAME = 256 * 1024 * 1024;

    /** Envelope of an answer around data that filled a frame. */
    private const FRAME_SLACK = 64 * 1024;

    /** A larger request waits for the answer to hello, which says whether the daemon takes it. */
    private const SENT_WITH_HELLO = 64 * 1024;

    /** @var array<string, Link> the persistent connections of this PHP request, by socket */
    private static array $kept = [];

    private readonly Link $link;
    private bool $watchesShutdown = false;

    public function __construct(private readonly StreamOptions $options)
    {
        $this->link = $options->keepsConnection()
            ? self::$kept[$options->socket] ??= new Link($options)
            : new Link($options);
    }

    public function call(string $method, array $params = []): mixed
    {
        [$answer] = $this->exchange([[$method, $params]]);
        if ($answer instanceof RequestFailed) {
            throw $answer;
        }
        return $answer;
    }

    public function pipeline(array $calls): array
    {
        if ($calls === []) {
            return [];
        }
        $requests = [];
        foreach ($calls as $call) {
            if (!is_array($call) || !is_string($call[0] ?? null) || !is_array($call[1] ?? [])) {
                throw new InvalidArgumentException('a call of a pipeline must be [string method, array params]');
            }
            $requests[] = [$call[0], $call[1] ?? []];
        }
        return array_combine(array_keys($calls), $this->exchange($requests));
    }

    public function socket(): string
    {
        return $this->options->socket;
    }

    /**
     * Says that the PHP request is over: bound locks that it forgot are released. At the end of PHP's own requests
     * this happens by itself; a worker that serves many in one (Octane, RoadRunner, FrankenPHP) may call it after each.
     */
    public function endRequest(): void
    {
        $this->link->endRequest();
    }

    /**
     * @param non-empty-list<array{string, array<string, mixed>}> $requests
     * @return list<mixed> results and failures, in their order
     */
    private function exchange(array $requests): array
    {
        $exchange = new Exchange($requests, $this->options, $this->link->takeIds(count($requests)));
        $bridgeUntil = Deadline::in($this->options->connectTimeoutSeconds);
        while (true) {
            $heldLocks = $this->link->bound !== [];
            if (!$this->attempt($exchange)) {
                continue;
            }
            // Whoever holds a lock stays with the daemon that knows it: a stopping one still takes the commit.
            if (!$exchange->isTurnedAway() || $heldLocks || $bridgeUntil->isOver()) {
                return $exchange->answers();
            }
            $this->link->close();
            $this->link->pause();
            $exchange->forgetSent();
        }
    }

    /**
     * One try over the connection that is there or a new one.
     *
     * @return bool false when it broke and is worth another
     */
    private function attempt(Exchange $exchange): bool
    {
        $wasThere = $this->connect($exchange);
        $deadline = Deadline::in($exchange->timeoutSeconds);
        try {
            $this->checkSize($exchange, $deadline);
            $this->converse($exchange, $deadline);
            return true;
        } catch (Broken $broken) {
            $this->link->close();
            if ($broken->how === Broken::CLOSED && $exchange->mayBeTriedAgain($wasThere)) {
                return false;
            }
            throw $this->failure($exchange, $broken);
        }
    }

    /** @return bool was there a connection before? */
    private function connect(Exchange $exchange): bool
    {
        if ($this->link->isAlive()) {
            return true;
        }
        try {
            $this->link->open();
        } catch (ConnectionException $failure) {
            throw $exchange->wasSent() ? ConnectionException::because($failure->getMessage(), [], true) : $failure;
        }
        return false;
    }

    /** Before much is sent, during which answers may come, the daemon's limit must be known. */
    private function checkSize(Exchange $exchange, Deadline $deadline): void
    {
        if (strlen($exchange->frames) <= self::SENT_WITH_HELLO) {
            return;
        }
        if ($this->link->maxFrame === null) {
            $id = $this->link->takeIds(1);
            $this->link->beginExchange();
            $this->link->send($this->hello($id), 1, $this->limit(), $deadline);
            [, $answered, $error, $result] = $this->receive($deadline);
            $answered === $id || throw Broken::nonsense('an answer came that nobody asked for');
            $this->takeHello($error, $result);
            $this->link->endExchange();
        }
        if ($exchange->largest > $this->link->maxFrame) {
            throw TooLargeException::because(
                "coatcheck at {$this->options->socket}: {$exchange->method()}: the request of {$exchange->largest} bytes "
                    . "is above the daemon's limit of {$this->link->maxFrame} bytes; nothing was sent",
                ['size' => $exchange->largest, 'limit' => $this->link->maxFrame],
            );
        }
    }

    private function converse(Exchange $exchange, Deadline $deadline): void
    {
        $helloId = $this->link->isGreeted ? null : $this->link->takeIds(1);
        $before = $this->link->prologue . ($helloId === null ? '' : $this->hello($helloId));
        $this->bind($exchange);
        $this->link->prologue = '';
        $this->link->beginExchange();
        $answers = count($exchange->requests) + ($helloId === null ? 0 : 1);
        $sent = $this->link->send($before . $exchange->frames, $answers, $this->limit(), $deadline);
        $exchange->addSent($sent - strlen($before));
        while (!$this->link->isGreeted || !$exchange->isComplete()) {
            [, $id, $error, $result] = $this->receive($deadline);
            if ($id === $helloId) { // not always the first: the answer to server.status may overtake it
                $this->takeHello($error, $result);
            } else {
                $exchange->take($id, $error, $result);
            }
        }
        $this->link->endExchange();
        $this->unbind($exchange);
    }

    private function hello(int $id): string
    {
        return Exchange::frame($this->options->codec, $id, 'hello', [
            'version' => self::PROTOCOL_VERSION,
            'client' => self::CLIENT,
            'pid' => getmypid(),
            'sapi' => PHP_SAPI,
        ]);
    }

    private function takeHello(mixed $error, mixed $result): void
    {
        if ($error !== null) {
            $this->link->close();
            throw Failures::ofDaemon($this->options->socket, 'hello', $error);
        }
        $maxFrame = is_array($result) ? $result['max_frame'] ?? null : null;
        if (!is_int($maxFrame) || $maxFrame < 1 || $maxFrame > self::HIGHEST_MAX_FRAME) {
            throw Broken::nonsense('the answer to hello names no max_frame that a daemon can have');
        }
        $this->link->maxFrame = $maxFrame;
        $this->link->isGreeted = true;
    }

    /**
     * The next response.
     *
     * @return array{int, int, mixed, mixed}
     */
    private function receive(Deadline $deadline): array
    {
        try {
            $response = $this->options->codec->decode($this->link->receive($this->limit(), $deadline));
        } catch (MalformedMessage $malformed) {
            throw Broken::nonsense("what came back is not a message ({$malformed->getMessage()})");
        }
        if (
            !is_array($response) || !array_is_list($response) || count($response) !== 4
            || $response[0] !== 1 || !is_int($response[1])
        ) {
            throw Broken::nonsense('what came back is not an answer');
        }
        if ($response[1] === 0 && $response[2] !== null) { // our bytes were not understood
            $this->link->close();
            throw Failures::ofDaemon($this->options->socket, 'frame', $response[2]);
        }
        return $response;
    }

    /** The size of the largest answer, in bytes. */
    private function limit(): int
    {
        return ($this->link->maxFrame ?? self::DEFAULT_MAX_FRAME) + self::FRAME_SLACK;
    }

    private function bind(Exchange $exchange): void
    {
        foreach ($exchange->requests as [$method, $params]) {
            if (Methods::mayBind($method, $params)) {
                $this->link->bound[(string) $params['token']] = true;
                $this->watchShutdown();
            }
        }
    }

    private function unbind(Exchange $exchange): void
    {
        if ($this->link->bound === []) {
            return;
        }
        $answers = $exchange->answers();
        foreach ($exchange->requests as $index => [$method, $params]) {
            if (isset($params['token']) && Methods::unbinds($method, $params, $answers[$index])) {
                unset($this->link->bound[(string) $params['token']]);
            }
        }
    }

    /**
     * A connection that is not kept closes with the PHP request, and the daemon releases what is bound to it. The
     * function puts itself behind those that are registered already, for a session is written by one of them.
     */
    private function watchShutdown(): void
    {
        if ($this->watchesShutdown || !$this->options->keepsConnection()) {
            return;
        }
        $this->watchesShutdown = true;
        register_shutdown_function(fn () => register_shutdown_function($this->endRequest(...)));
    }

    private function failure(Exchange $exchange, Broken $broken): RequestFailed
    {
        $isUnknown = $exchange->wasSent();
        $message = "coatcheck at {$this->options->socket}: {$exchange->method()}: {$broken->getMessage()}"
            . ($isUnknown && !$exchange->isHarmless() ? '; whether it was carried out is unknown' : '');
        return match ($broken->how) {
            Broken::TIMED_OUT => TimeoutException::because($message, [], $isUnknown),
            Broken::NONSENSE => ProtocolException::because($message, [], $isUnknown),
            default => ConnectionException::because($message, [], $isUnknown),
        };
    }
}

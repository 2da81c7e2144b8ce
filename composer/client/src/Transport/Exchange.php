<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Codec\Codec;
use Coatcheck\Client\Exception\Failures;
use Coatcheck\Client\Exception\UnavailableException;

/**
 * Requests that go out together, and what has come back of their answers.
 *
 * @internal
 */
final class Exchange
{
    public readonly string $frames;

    /** The size of the largest frame, in bytes. */
    public readonly int $largest;

    /** How long to wait for all answers together. */
    public readonly float $timeoutSeconds;

    private readonly bool $isResendable;
    private bool $wasSent = false;
    private bool $wasResent = false;

    /** @var array<int, mixed> results and failures by the index of their request */
    private array $answers = [];

    /**
     * @param non-empty-list<array{string, array<string, mixed>}> $requests
     */
    public function __construct(
        public readonly array $requests,
        private readonly StreamOptions $options,
        private readonly int $firstId,
    ) {
        $frames = '';
        $largest = 0;
        $wait = 0.0;
        $isResendable = true;
        foreach ($requests as $index => [$method, $params]) {
            $frame = self::frame($options->codec, $firstId + $index, $method, $params);
            $frames .= $frame;
            $largest = max($largest, strlen($frame) - 4);
            $wait = max($wait, Methods::requestedWaitSeconds($method, $params));
            $isResendable = $isResendable && Methods::isResendable($method);
        }
        $this->frames = $frames;
        $this->largest = $largest;
        $this->timeoutSeconds = $options->timeoutSeconds + $wait;
        $this->isResendable = $isResendable;
    }

    /**
     * A request in its frame.
     *
     * @param array<string, mixed> $params
     */
    public static function frame(Codec $codec, int $id, string $method, array $params): string
    {
        $body = "\x94\x00" . $codec->encode($id) . $codec->encode($method)
            . ($params === [] ? "\x80" : $codec->encode($params));
        return pack('N', strlen($body)) . $body;
    }

    /** The method that messages name. */
    public function method(): string
    {
        return $this->requests[0][0];
    }

    public function addSent(int $bytes): void
    {
        $this->wasSent = $this->wasSent || $bytes > 0;
    }

    /** Did bytes of a request go out, in whichever try? */
    public function wasSent(): bool
    {
        return $this->wasSent;
    }

    /** The daemon said that it carried nothing out. */
    public function forgetSent(): void
    {
        $this->wasSent = false;
        $this->answers = [];
    }

    /**
     * After a connection broke: true once at most, and never when a second sending could do harm.
     *
     * @param bool $wasOld was the connection there before? When nothing went out over it, only the daemon before this one
     *     had gone, and that costs no try
     */
    public function mayBeTriedAgain(bool $wasOld): bool
    {
        if ($this->answers !== []) {
            return false;
        }
        if ($wasOld && !$this->wasSent) {
            return true;
        }
        if ($this->wasResent || ($this->wasSent && !$this->isResendable)) {
            return false;
        }
        return $this->wasResent = true;
    }

    /** Does sending it twice do no harm, so that an unknown outcome is of no matter? */
    public function isHarmless(): bool
    {
        return $this->isResendable;
    }

    /**
     * @throws Broken when nobody asked for this answer
     */
    public function take(mixed $id, mixed $error, mixed $result): void
    {
        $index = is_int($id) ? $id - $this->firstId : -1;
        if (!isset($this->requests[$index]) || array_key_exists($index, $this->answers)) {
            throw Broken::nonsense('an answer came that nobody asked for');
        }
        $this->answers[$index] = $error === null
            ? $result
            : Failures::ofDaemon($this->options->socket, $this->requests[$index][0], $error);
    }

    public function isComplete(): bool
    {
        return count($this->answers) === count($this->requests);
    }

    /** Did a daemon that starts or stops turn the one request away? */
    public function isTurnedAway(): bool
    {
        return count($this->requests) === 1 && $this->answers[0] instanceof UnavailableException;
    }

    /** @return list<mixed> results and failures in the order of the requests */
    public function answers(): array
    {
        ksort($this->answers);
        return array_values($this->answers);
    }
}

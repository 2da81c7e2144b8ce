<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Exception\CoatcheckException;
use Coatcheck\Client\Exception\ProtocolException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TooLargeException;
use Coatcheck\Client\Transport\Transport;

/**
 * The way to the daemon. The first failure that is not about a single call ends it for this PHP request: one line in the
 * log, and no page waits for a dead daemon twice.
 */
final class Daemon
{
    public int $roundTrips = 0;
    private ?Transport $transport = null;
    private ?string $trouble = null;
    private bool $hasLogged = false;

    /** @param \Closure(): Transport $connect */
    public function __construct(private readonly \Closure $connect)
    {
    }

    /**
     * Asks several things in one round trip.
     *
     * @param array<array-key, array{string, array<string, mixed>}> $calls
     * @return array<array-key, mixed>|null the answers by the keys of the calls; a RequestFailed in the place of one that
     *     was refused, too large or misused; null when the daemon cannot be asked
     */
    public function ask(array $calls): ?array
    {
        if ($this->trouble !== null) {
            return null;
        }
        $this->roundTrips++;
        try {
            $this->transport ??= ($this->connect)();
            $answers = $this->transport->pipeline($calls);
        } catch (TooLargeException $failure) { // one of them; nothing was sent
            return count($calls) === 1 ? array_fill_keys(array_keys($calls), $failure) : $this->askOneByOne($calls);
        } catch (CoatcheckException $failure) {
            $this->giveUp($failure);
            return null;
        }
        foreach ($answers as $answer) {
            if ($answer instanceof RequestFailed && !self::isAboutOneCall($answer)) {
                $this->giveUp($answer);
                return null;
            }
            if ($answer instanceof ProtocolException) { // nothing that happens to a sound call
                $this->log($answer->getMessage());
            }
        }
        return $answers;
    }

    /** Why it cannot be asked; null when nothing is known against it. */
    public function trouble(): ?string
    {
        return $this->trouble;
    }

    /** What went wrong before is forgotten. */
    public function tryAgain(): void
    {
        $this->trouble = null;
    }

    public function giveUp(\Throwable $failure): void
    {
        $this->trouble = $failure->getMessage();
        $this->log("{$this->trouble}. The object cache of this request lives in its own memory");
    }

    /** One line for each PHP request: the first tells what is wrong, the others would tell the same. */
    public function log(string $line): void
    {
        if (!$this->hasLogged) {
            $this->hasLogged = true;
            error_log(str_starts_with($line, 'coatcheck') ? $line : "coatcheck: $line");
        }
    }

    /**
     * @param array<array-key, array{string, array<string, mixed>}> $calls
     * @return array<array-key, mixed>|null
     */
    private function askOneByOne(array $calls): ?array
    {
        $answers = [];
        foreach ($calls as $key => $call) {
            $answer = $this->ask([$key => $call]);
            if ($answer === null) {
                return null;
            }
            $answers += $answer;
        }
        return $answers;
    }

    /** A daemon that says what is wrong with a call is well. */
    private static function isAboutOneCall(RequestFailed $failure): bool
    {
        return $failure instanceof TooLargeException
            || $failure instanceof ProtocolException
            || ($failure instanceof RefusedException && !in_array($failure->reason(), ['rate', 'uid', 'waiters'], true));
    }
}

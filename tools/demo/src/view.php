<?php

/** The parts of the demo's page, as HTML. */

declare(strict_types=1);

namespace Coatcheck\Demo;

function text(string $plain): string
{
    return htmlspecialchars($plain, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

function fact(string $name, string $value, string $note): string
{
    return sprintf('<div><dt>%s</dt><dd>%s <small>%s</small></dd></div>', text($name), text($value), text($note));
}

/**
 * One kind of locking: its button and, once pressed, its outcome.
 *
 * @param 'on'|'off' $locking
 * @param array<string, mixed>|null $outcome as fanout.php left it; null when the button was not pressed yet
 */
function card(string $locking, string $title, ?array $outcome): string
{
    return sprintf(
        '<article class="card" id="%1$s"><h3>%2$s</h3><p><code>coatcheck.session_locking=%3$s</code></p>%4$s
        <form method="post" action="/fanout.php"><input type="hidden" name="locking" value="%1$s">
        <button>Fire 20 requests</button></form></article>',
        $locking,
        text($title),
        ucfirst($locking),
        $outcome === null ? '<p class="verdict idle">not fired yet</p>' : outcome($outcome)
    );
}

/** @param array<string, mixed> $outcome */
function outcome(array $outcome): string
{
    $all = $outcome['kept'] === $outcome['sent'];
    $last = max(array_column($outcome['answers'], 'took_ms'));

    return sprintf(
        '<p class="verdict %s"><strong>%d of %d kept</strong> %d lost, in %d ms, %d answers were 200</p>%s',
        $all ? 'good' : 'bad',
        $outcome['kept'],
        $outcome['sent'],
        $outcome['sent'] - $outcome['kept'],
        (int) round($last),
        $outcome['ok'],
        chart($outcome['answers'], $last)
    );
}

/**
 * A bar for each request on a common time axis: waiting for the lock, then at work.
 *
 * @param list<array{status: int, took_ms: float, body: array<string, mixed>}> $answers
 */
function chart(array $answers, float $lastMs): string
{
    $row = 8;
    $width = 400;
    $scale = $width / max($lastMs, 1.0);
    $bars = '';
    foreach ($answers as $i => $answer) {
        $workMs = $answer['body']['work_ms'] ?? 0;
        $waitMs = $answer['body']['waited_ms'] ?? 0;
        $workAt = max($answer['took_ms'] - $workMs, 0.0);
        $bars .= bar('wait', max($workAt - $waitMs, 0.0) * $scale, $i * $row, min($waitMs, $workAt) * $scale)
            . bar('work', $workAt * $scale, $i * $row, $workMs * $scale);
    }

    return sprintf(
        '<figure><svg viewBox="0 0 %1$d %2$d" role="img" aria-label="Time line of %3$d requests over %4$d ms">%5$s</svg>
        <p class="axis"><span>0 ms</span><span>%4$d ms</span></p>
        <figcaption><span class="key wait"></span> waits for the lock
        <span class="key work"></span> works on the session</figcaption></figure>',
        $width,
        count($answers) * $row,
        count($answers),
        (int) round($lastMs),
        $bars
    );
}

function bar(string $class, float $x, int $y, float $width): string
{
    return sprintf('<rect class="%s" x="%.1F" y="%d" width="%.1F" height="5" rx="1.5"/>', $class, $x, $y, $width);
}

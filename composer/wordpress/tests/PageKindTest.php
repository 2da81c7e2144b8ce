<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\Tests\Packages\Page;
use PHPUnit\Framework\TestCase;

final class PageKindTest extends TestCase
{
    public function testTheCommandLineLooksAheadForNothing(): void
    {
        self::assertNull(\Coatcheck\WordPress\PageKind::ofThisRequest(false));
    }

    public function testAPageIsItsAddressWhatWordPressReadsOfItAndWhetherSomeoneIsLoggedIn(): void
    {
        $front = $this->kind('/');
        self::assertMatchesRegularExpression('/^page:[0-9a-f]{64}$/', $front);
        self::assertSame($front, $this->kind('/', 'utm_source=x&action=y'));
        self::assertSame($front, $this->kind('/', 'p[]=1'));
        self::assertNotSame($front, $this->kind('/about/'));
        self::assertNotSame($front, $this->kind('/', 'p=1'));
        self::assertNotSame($front, $this->kind('/', '', 'wordpress_logged_in_0a=1'));
        self::assertNotSame($this->kind('/wp-admin/post.php', 'post=1'), $this->kind('/wp-admin/post.php', 'post=2'));
    }

    public function testTheHostCountsInANetworkAlone(): void
    {
        self::assertSame($this->kind('/', '', '', 'a.test'), $this->kind('/', '', '', 'b.test'));
        self::assertNotSame($this->kind('/', '', '', 'a.test', 'network'), $this->kind('/', '', '', 'b.test', 'network'));
    }

    private function kind(string $path, string $query = '', string $cookie = '', string $host = '', string $of = ''): string
    {
        parse_str($query, $parameters);
        return Page::begin(__DIR__ . '/pages/kind.php', $parameters, $cookie, [
            'REQUEST_URI' => "$path?$query", 'HTTP_HOST' => $host, 'TEST_OF' => $of,
        ])->body();
    }
}

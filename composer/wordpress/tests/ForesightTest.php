<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\ObjectCache;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * A page that was seen before finds what it reads in two round trips.
 */
final class ForesightTest extends CacheTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        http_response_code(200);
        $cache = $this->request(1);
        $cache->set_multiple(array_fill_keys(range(1, 50), 'value'), 'posts');
        $cache->set('user', 'value', 'users');
        $this->request()->set_multiple(array_fill_keys(range(1, 50), 'value'), 'posts');
    }

    public function testAPageOfASingleSiteTakesTwoRoundTripsOnceItIsWarm(): void
    {
        self::assertGreaterThan(50, $this->page(null));
        self::assertSame(2, $this->page(null));
        self::assertSame(2, $this->page(null), 'and remembers nothing new');
    }

    public function testAPageOfANetworkTakesTwoRoundTripsOnceItIsWarm(): void
    {
        $this->page(1);
        self::assertSame(2, $this->page(1));
    }

    public function testAPageOfANetworkTakesThreeRoundTripsAfterAnOutage(): void
    {
        $this->page(1);
        $missed = new \Coatcheck\WordPress\MissedWrites([$this->stateDirectory], 'secret');
        $missed->note("$this->prefix:1");
        $this->page(1);
        $this->page(1);
        self::assertLessThanOrEqual(3, $this->page(1));
    }

    public function testAFlushIsSeenAndTheNextPagesAreWarmAgain(): void
    {
        foreach ([null, 1] as $site) {
            $this->page($site);
            $this->request($site)->flush_group('posts');
            $cache = $this->request($site, 'page:x');
            self::assertFalse($cache->get(1, 'posts'));
            $this->page($site);
            $this->page($site);
            self::assertSame(2, $this->page($site));
        }
    }

    public function testWhatIsSetAfterwardsIsNotWhatWasReadAhead(): void
    {
        $this->page(null);
        $cache = $this->request(null, 'page:x');
        $cache->get(2, 'posts');
        $cache->set(1, 'new', 'posts');
        $cache->delete(3, 'posts');
        self::assertSame('new', $cache->get(1, 'posts'));
        self::assertFalse($cache->get(3, 'posts'));
        self::assertTrue($cache->add('missing', 'added', 'posts'));
        self::assertSame('added', $cache->get('missing', 'posts'));
        $this->request()->set(4, 'theirs', 'posts');
        self::assertSame('theirs', $cache->get(4, 'posts', true), 'force asks the daemon');
    }

    public function testWhatWasMissingIsAskedForAgainAfterAMoment(): void
    {
        $this->page(null);
        $cache = $this->request(null, 'page:x');
        self::assertFalse($cache->get('missing', 'posts'));
        $this->request()->set('missing', 'there', 'posts');
        \Coatcheck\Tests\Packages\Daemon::eventually('it is there', fn () => $cache->get('missing', 'posts') === 'there');
    }

    public function testAPageThatWasNotFoundIsNotRemembered(): void
    {
        http_response_code(404);
        $this->page(null);
        self::assertNull($this->client()->bucket("$this->prefix:all")->get('page:x'));
    }

    public function testNamesThatAreNoLongerReadAreForgotten(): void
    {
        $this->page(null);
        $cache = $this->request(null, 'page:x');
        $cache->get('another', 'posts');
        $cache->get('third', 'posts');
        $cache->close();
        $remembered = (string) $this->client()->bucket("$this->prefix:all")->get('page:x');
        self::assertStringContainsString('another', $remembered);
        self::assertStringNotContainsString('missing', $remembered);
    }

    /** @dataProvider brokenRecords */
    #[DataProvider('brokenRecords')]
    public function testABrokenRecordIsNoHarm(string $record): void
    {
        $this->client()->bucket("$this->prefix:all")->set('page:x', $record);
        self::assertSame('value', $this->request(null, 'page:x')->get(1, 'posts'));
        $this->page(null);
        self::assertSame(2, $this->page(null));
    }

    /** @return array<string, array{string}> */
    public static function brokenRecords(): array
    {
        return [
            'bytes' => ["\0\1"], 'text' => [serialize('text')], 'numbers' => [serialize([1, 2])],
            'lists' => [serialize([['a', 'b'], ['a', ['g' => 'b']]])],
        ];
    }

    /** @return int how many round trips it took */
    private function page(?int $site): int
    {
        $cache = $this->request($site, 'page:x');
        $transport = $this->transport;
        $this->render($cache);
        return $transport->roundTrips;
    }

    private function render(ObjectCache $cache): void
    {
        $cache->get('user', 'users');
        foreach (range(1, 50) as $number) {
            $cache->get($number, 'posts');
        }
        $cache->get_multiple([1, 2, 'missing'], 'posts');
        $cache->get('missing', 'posts');
        $cache->close();
    }
}

<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\Tests\Support\CacheTestCase;

final class MultisiteTest extends CacheTestCase
{
    public function testEverySiteHasItsOwnValuesAndSharesTheGlobalGroups(): void
    {
        $cache = $this->request(1);
        $cache->set('key', 'of site 1');
        $cache->set('key', 'of all', 'global-group');
        $cache->switch_to_blog(2);
        self::assertFalse($cache->get('key'));
        self::assertSame('of all', $cache->get('key', 'global-group'));
        $cache->set('key', 'of site 2');
        $cache->switch_to_blog('1');
        self::assertSame('of site 1', $cache->get('key'));
        self::assertSame('of site 2', $this->request(2)->get('key'));
        self::assertSame('of all', $this->request(3)->get('key', 'global-group'));
    }

    public function testASingleSiteHasNothingToSwitchTo(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value');
        $cache->switch_to_blog(2);
        self::assertSame('value', $cache->get('key'));
    }

    public function testTheFlushOfASiteTouchesNoOther(): void
    {
        foreach ([1, 2, 12] as $site) {
            $this->request($site)->set('key', $site);
        }
        $this->request(1)->set('key', 'of all', 'users');
        self::assertTrue($this->request(2)->flush());
        self::assertFalse($this->request(2)->get('key'));
        self::assertSame(1, $this->request(1)->get('key'));
        self::assertSame(12, $this->request(12)->get('key'));
        self::assertSame('of all', $this->request(2)->get('key', 'users'));
    }

    public function testWhatSitesShareGoesWithTheMainSite(): void
    {
        $this->request(2)->set('key', 'of site 2');
        $this->request(2)->set('key', 'of all', 'users');
        self::assertTrue($this->request(1)->flush());
        self::assertFalse($this->request(2)->get('key', 'users'));
        self::assertSame('of site 2', $this->request(2)->get('key'));
    }

    public function testFlushGroupIsOfThisSiteUnlessTheGroupIsGlobal(): void
    {
        foreach ([1, 2] as $site) {
            $this->request($site)->set('key', $site, 'g');
        }
        $this->request(1)->set('key', 'of all', 'users');
        $this->request(1)->flush_group('g');
        self::assertFalse($this->request(1)->get('key', 'g'));
        self::assertSame(2, $this->request(2)->get('key', 'g'));
        $this->request(2)->flush_group('users');
        self::assertFalse($this->request(1)->get('key', 'users'));
    }

    public function testInstallationsThatShareADaemonShareNothingElse(): void
    {
        $cache = $this->request();
        $cache->set('key', 'ours');
        $prefix = $this->prefix;
        $this->prefix = "$prefix-other";
        self::assertFalse($this->request()->get('key'));
        $this->request()->set('key', 'theirs');
        $this->request()->flush();
        $this->prefix = $prefix;
        self::assertSame('ours', $this->request()->get('key'));
    }

    public function testResetForgetsTheCopyOfThisSiteAlone(): void
    {
        $cache = $this->request(1);
        $cache->set('key', 'old');
        $cache->set('key', 'of all', 'users');
        $this->request(1)->set('key', 'new');
        $this->request(1)->set('key', 'new', 'users');
        $cache->reset();
        self::assertSame('new', $cache->get('key'));
        self::assertSame('of all', $cache->get('key', 'users'));
    }
}

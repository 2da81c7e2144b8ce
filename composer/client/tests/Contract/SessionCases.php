<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Token;

trait SessionCases
{
    public function testASessionIsReadLockedAndWritten(): void
    {
        $id = self::fresh('session');
        $token = Token::random();
        $opened = $this->client->openSession($id, $token);
        self::assertSame(['', false, true], [$opened->data, $opened->isFound, $opened->isLocked]);
        self::assertTrue($this->client->commitSession($id, $opened->fence, "data\0", 60, $token));
        $again = $this->client->openSession($id);
        self::assertSame(["data\0", true, false], [$again->data, $again->isFound, $again->isLocked]);
        self::assertTrue($this->client->sessionExists($id));
        self::assertFalse($this->client->sessionExists($id, 'other prefix'));
        self::assertFalse($this->client->releaseSession($id, $token));
    }

    public function testABusySessionNamesItsHolder(): void
    {
        $id = self::fresh('session');
        $other = self::other();
        $token = Token::random();
        $other->openSession($id, $token, script: '/srv/holder.php');
        $readonly = $this->client->openSession($id, Token::random(), policy: 'readonly');
        self::assertFalse($readonly->isLocked);
        self::assertSame('/srv/holder.php', $readonly->holder['script']);
        self::assertTrue($other->releaseSession($id, $token));
        $other->openSession($id, $token);
        $this->expectException(BusyException::class);
        $this->client->openSession($id, Token::random());
    }

    public function testAStaleWriteIsRefused(): void
    {
        $id = self::fresh('session');
        $old = $this->client->openSession($id, $oldToken = Token::random());
        self::assertTrue($this->client->forceReleaseSession($id));
        $new = $this->client->openSession($id, $newToken = Token::random());
        try {
            $this->client->commitSession($id, $old->fence, 'stale', 60, $oldToken);
            self::fail('a stale write was taken');
        } catch (RefusedException $refused) {
            self::assertSame('superseded', $refused->reason());
        }
        self::assertTrue($this->client->commitSession($id, $new->fence, 'fresh', 60, $newToken));
        self::assertSame('fresh', $this->client->openSession($id)->data);
    }

    public function testAWriteAfterTheDestroyIsRefused(): void
    {
        $id = self::fresh('session');
        $first = $this->client->openSession($id, $token = Token::random());
        $this->client->commitSession($id, $first->fence, 'data', 60, $token);
        $reader = $this->client->openSession($id);
        self::assertTrue($this->client->destroySession($id));
        self::assertFalse($this->client->destroySession($id));
        try {
            $this->client->commitSession($id, $reader->fence, 'back', 60);
            self::fail('a destroyed session came back');
        } catch (RefusedException $refused) {
            self::assertSame('destroyed', $refused->reason());
        }
        self::assertFalse($this->client->sessionExists($id));
    }

    public function testATouchOfAMissingRecordAsksForTheData(): void
    {
        $id = self::fresh('session');
        $opened = $this->client->openSession($id, $token = Token::random());
        self::assertFalse($this->client->commitSession($id, $opened->fence, null, 60, $token));
        self::assertTrue($this->client->commitSession($id, $opened->fence, '', 60, $token));
        $shown = $this->client->sessions($id);
        self::assertCount(1, $shown);
        self::assertStringEndsWith('…', $shown[0]['id']);
    }

    public function testAnIdThatIsNoneIsRefused(): void
    {
        $this->expectException(RefusedException::class);
        $this->client->openSession('../etc/passwd');
    }
}

<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Client\Exception\CoatcheckException;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\ProtocolException;
use Coatcheck\Client\Exception\TooLargeException;
use PHPUnit\Framework\Attributes\DataProvider;

trait FailureCases
{
    public function testAFailureIsNeverAGuess(): void
    {
        self::assertNull($this->client->get('missing'));
        foreach (
            [
                ['kv.nothing', [], \Coatcheck\ProtocolException::class],
                ['kv.get', ['kye' => 'misspelt'], \Coatcheck\ProtocolException::class],
                ['kv.get', ['key' => 1.5], \Coatcheck\ProtocolException::class],
            ] as [$method, $params, $class]
        ) {
            try {
                $this->client->call($method, $params);
                self::fail("$method was answered");
            } catch (ProtocolException $failure) {
                self::assertInstanceOf($class, $failure);
                self::assertInstanceOf(\Coatcheck\Exception::class, $failure);
                self::assertInstanceOf(CoatcheckException::class, $failure);
                self::assertStringContainsString($this->client->transport->socket(), $failure->getMessage());
                self::assertStringContainsString($method, $failure->getMessage());
                self::assertFalse($failure->outcomeIsUnknown());
            }
        }
        $this->client->ping();
    }

    public function testWhatIsTooLargeIsNotSent(): void
    {
        $this->client->set('key', 'kept');
        try {
            $this->client->set('key', str_repeat('x', 17 << 20));
            self::fail('a frame above the limit was taken');
        } catch (TooLargeException $failure) {
            self::assertGreaterThan(17 << 20, $failure->size());
            self::assertSame(16 << 20, $failure->limit());
        }
        self::assertSame('kept', $this->client->get('key'));
    }

    public function testTheLargestValueGoesThrough(): void
    {
        $value = random_bytes(15 << 20);
        $this->client->set('large', $value);
        self::assertTrue($value === $this->client->get('large'));
    }

    /**
     * @dataProvider unsendable
     */
    #[DataProvider('unsendable')]
    public function testWhatCannotBeSentIsTheCallersFault(mixed $value): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->client->call('kv.set', ['key' => 'k', 'value' => $value]);
    }

    /** @return array<string, array{mixed}> */
    public static function unsendable(): array
    {
        return [
            'an object' => [new \stdClass()],
            'a resource' => [STDERR],
            'nested too deep' => [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],
        ];
    }

    /**
     * @dataProvider noCalls
     */
    #[DataProvider('noCalls')]
    public function testAPipelineTakesCallsOnly(mixed $call): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->client->pipeline([['server.ping'], $call]);
    }

    /** @return array<string, array{mixed}> */
    public static function noCalls(): array
    {
        return ['a name' => ['server.ping'], 'no method' => [[]], 'no params' => [['kv.get', 'key']]];
    }

    public function testACallsOwnTimeLimitDoesNotEndAWait(): void
    {
        $this->client->set('key', 'v');
        $version = $this->client->wait('key', 0, 0)['version'];
        self::assertNull($this->client->wait('key', $version, 0.15));
        $this->client->ping();
    }
}

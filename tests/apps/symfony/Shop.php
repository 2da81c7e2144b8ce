<?php

declare(strict_types=1);

namespace App;

use Coatcheck\Symfony\CoatcheckBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Contracts\Cache\ItemInterface;
use Symfony\Contracts\Cache\TagAwareCacheInterface;

/**
 * A small Symfony application that keeps its sessions, cache and locks in coatcheck.
 */
final class Shop extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new CoatcheckBundle()];
    }

    public function getProjectDir(): string
    {
        return __DIR__;
    }

    /** Adds one to a number in the session; with ?hold it stays in the page for so many milliseconds. */
    public function count(Request $request): Response
    {
        $session = $request->getSession();
        $count = $session->get('count', 0) + 1;
        usleep(1000 * $request->query->getInt('hold'));
        $session->set('count', $count);
        return new Response((string) $count);
    }

    /** The id changes as it does at a login. */
    public function login(Request $request): Response
    {
        $session = $request->getSession();
        $session->start();
        $before = $session->getId();
        $session->migrate(true);
        return new Response($before !== $session->getId() ? 'a new id' : 'the same id');
    }

    public function logout(Request $request): Response
    {
        $request->getSession()->invalidate();
        return new Response('bye');
    }

    /** Reads the session, tells its process in var/ and stays until that process is killed. */
    public function stay(Request $request): Response
    {
        $request->getSession()->get('count');
        file_put_contents(__DIR__ . '/var/stays', getmypid() . "\n");
        sleep(50);
        return new Response('nobody killed it');
    }

    /** Takes a lock and hands its key to whoever comes next. */
    public function lock(LockFactory $locks): Response
    {
        $key = new Key('nightly report');
        $lock = $locks->createLockFromKey($key, 60, false);
        return new Response($lock->acquire() ? base64_encode(serialize($key)) : 'taken');
    }

    public function unlock(Request $request, LockFactory $locks): Response
    {
        $key = unserialize(base64_decode($request->query->get('key')), ['allowed_classes' => [Key::class]]);
        $lock = $locks->createLockFromKey($key, 60, false);
        if (!$lock->isAcquired()) {
            return new Response('not its own');
        }
        $lock->release();
        return new Response('released');
    }

    public function article(TagAwareCacheInterface $cache): Response
    {
        return new Response($cache->get('article', static function (ItemInterface $item): string {
            $item->tag(['articles'])->expiresAfter(60);
            return 'written at ' . hrtime(true);
        }));
    }

    public function publish(TagAwareCacheInterface $cache): Response
    {
        return new Response($cache->invalidateTags(['articles']) ? 'published' : 'failed');
    }

    private function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'of the test',
            'http_method_override' => false,
            'session' => [
                'handler_id' => getenv('SHOP_SESSIONS') === 'native' ? null : 'coatcheck.session_handler',
                'storage_factory_id' => 'session.storage.factory.native',
                'cookie_secure' => 'auto', 'cookie_samesite' => 'lax',
            ],
            'cache' => ['app' => 'cache.adapter.coatcheck_tag_aware'],
            'router' => ['utf8' => true],
        ]);
        $container->extension('coatcheck', [
            'dsn' => 'coatcheck://%env(COATCHECK_SOCKET)%',
            'lock' => ['default' => true],
        ]);
    }

    private function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach (['count', 'login', 'logout', 'stay', 'lock', 'unlock', 'article', 'publish'] as $name) {
            $routes->add($name, "/$name")->controller(['kernel', $name]);
        }
    }
}

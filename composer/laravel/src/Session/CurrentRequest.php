<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Session;

use Illuminate\Container\Container;
use Illuminate\Http\Request;
use Illuminate\Routing\Route;

/**
 * What the session needs to know of the request that is being served.
 */
final class CurrentRequest
{
    /** The key of a route's action that says: this route only reads the session. */
    public const READ_ONLY = 'coatcheck_read_only_session';

    /** @param list<string> $readOnlyPaths patterns as of Request::is() */
    public function __construct(private readonly array $readOnlyPaths = [])
    {
    }

    public function onlyReadsItsSession(): bool
    {
        $request = $this->request();
        if ($request === null) {
            return false;
        }
        $route = $request->route();
        return ($route instanceof Route && ($route->getAction()[self::READ_ONLY] ?? false) === true)
            || ($this->readOnlyPaths !== [] && $request->is(...$this->readOnlyPaths));
    }

    /**
     * How others see who holds the session: method and route, never the address itself, which may carry secrets.
     */
    public function name(): ?string
    {
        $request = $this->request();
        $route = $request?->route();
        return $route instanceof Route ? $request->method() . ' ' . $route->uri() : null;
    }

    /** Asked anew each time: under Octane every request has a container of its own. */
    private function request(): ?Request
    {
        $container = Container::getInstance();
        $request = $container->bound('request') ? $container->make('request') : null;
        return $request instanceof Request ? $request : null;
    }
}

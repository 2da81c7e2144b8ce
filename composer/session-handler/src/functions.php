<?php

declare(strict_types=1);

namespace Coatcheck\Session;

use Coatcheck\Client\Exception\CoatcheckException;

if (!\function_exists(__NAMESPACE__ . '\\register')) {
    /**
     * Has $_SESSION kept by coatcheck from here on; call it before session_start().
     *
     * Where the extension is loaded, its own handler (session.save_handler = coatcheck) does the same with less work. That
     * is said by a silenced deprecation: error handlers and the debug toolbars of frameworks see it, logs stay quiet.
     *
     * @param array<string, mixed> $options socket, prefix, session_locking, lock_lease, lock_wait, lock_failure,
     *     connect_timeout_ms, timeout_ms; the names, units and defaults are those of the extension's settings. Further
     *     transport, persistent and codec, as of Coatcheck\Client\Client::connect()
     *
     * @throws CoatcheckException when an option is none
     */
    function register(array $options = []): Handler
    {
        if (\extension_loaded('coatcheck')) {
            @\trigger_error(
                'The extension coatcheck is loaded: session.save_handler = coatcheck keeps sessions natively, which is the '
                    . 'better choice than Coatcheck\Session\register().',
                E_USER_DEPRECATED,
            );
        }
        $handler = new Handler($options);
        \session_set_save_handler($handler, true);
        return $handler;
    }
}

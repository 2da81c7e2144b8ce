<?php

/** What every page of the demo does before it touches a session. */

declare(strict_types=1);

namespace Coatcheck\Demo;

/** The hits of a fan-out are counted in the visitor's session when locked, else in one of their own. */
const SESSION_NAMES = ['on' => 'coatcheck_demo', 'off' => 'coatcheck_demo_unlocked'];

/** @return 'on'|'off' what the request asks for; locking is on unless it says off. */
function lockingFromRequest(): string
{
    return ($_REQUEST['locking'] ?? 'on') === 'off' ? 'off' : 'on';
}

/**
 * Starts the session that belongs to this kind of locking.
 *
 * @param 'on'|'off' $locking
 * @return bool false when the daemon does not answer; PHP has warned with the reason.
 */
function startSession(string $locking): bool
{
    static $ids = [];
    $name = SESSION_NAMES[$locking];
    $id = $ids[$name] ?? $_COOKIE[$name] ?? '';

    ini_set('coatcheck.session_locking', $locking === 'off' ? 'Off' : 'On');
    session_name($name);
    // Left alone, PHP would go on with the id of the session before, whatever its name.
    session_id(is_string($id) ? $id : '');
    if (!session_start()) {
        return false;
    }
    $ids[$name] = session_id();

    return true;
}

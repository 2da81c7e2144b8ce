<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * There is no connection to the daemon, or it broke before the answer came.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class ConnectionException extends Exception
{
}

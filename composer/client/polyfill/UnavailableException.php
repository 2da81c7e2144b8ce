<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * The daemon is starting or shutting down.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class UnavailableException extends Exception
{
}

<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * Someone else holds the lock, and the wait is over or the queue is full.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class BusyException extends Exception
{
}

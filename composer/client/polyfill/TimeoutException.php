<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * No answer came in time.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class TimeoutException extends Exception
{
}

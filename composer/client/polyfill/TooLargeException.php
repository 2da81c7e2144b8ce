<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * The request or its answer is larger than the daemon allows.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class TooLargeException extends Exception
{
}

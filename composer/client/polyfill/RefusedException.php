<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * The request is sound, the state forbids it; nothing was changed.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class RefusedException extends Exception
{
}

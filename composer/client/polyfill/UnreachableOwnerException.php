<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * The owner of the key did not answer: the outcome is unknown.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class UnreachableOwnerException extends Exception
{
}

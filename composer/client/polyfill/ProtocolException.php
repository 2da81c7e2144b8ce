<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * A frame, method or parameter is wrong.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class ProtocolException extends Exception
{
}

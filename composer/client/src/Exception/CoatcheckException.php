<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * What everything that this package throws has in common.
 *
 * The failures of a request also are a Coatcheck\Exception, the class that the extension's functions
 * throw, so `catch (\Coatcheck\BusyException $e)` works whichever way the daemon was asked.
 */
interface CoatcheckException extends \Throwable
{
}

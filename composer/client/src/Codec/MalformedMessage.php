<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * The bytes are not one MessagePack value of the types that the protocol uses.
 *
 * @internal the transports turn it into a ProtocolException
 */
final class MalformedMessage extends \RuntimeException
{
}

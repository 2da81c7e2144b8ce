<?php

declare(strict_types=1);

return ['dsn' => getenv('COATCHECK_SOCKET')];

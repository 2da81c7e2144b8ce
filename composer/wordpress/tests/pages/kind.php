<?php

declare(strict_types=1);

require __DIR__ . '/../../src/PageKind.php';

echo Coatcheck\WordPress\PageKind::ofThisRequest(getenv('TEST_OF') === 'network') ?? 'none';

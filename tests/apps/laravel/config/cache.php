<?php

declare(strict_types=1);

return ['default' => 'coatcheck', 'prefix' => 'shop'];

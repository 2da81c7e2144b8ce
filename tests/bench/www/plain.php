<?php

/** A page without a session. */

declare(strict_types=1);

echo 1;

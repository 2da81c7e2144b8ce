<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * Which page this PHP request is for, as far as it decides what the page reads from the cache: its address, the
 * parameters that WordPress itself reads, and whether someone is logged in.
 */
final class PageKind
{
    private const PARAMETERS = [
        'p', 'page_id', 'attachment_id', 'name', 'pagename', 'post_type', 'cat', 'tag', 'author', 'm', 'paged',
        'rest_route', 'page', 'post', 'action',
    ];

    /** @return string|null null for what is no page that is looked at: a change, the command line */
    public static function ofThisRequest(): ?string
    {
        if (PHP_SAPI === 'cli' || !in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)) {
            return null;
        }
        $isLoggedIn = preg_grep('/^wordpress_logged_in_/', array_keys($_COOKIE)) !== [];
        $path = explode('?', (string) ($_SERVER['REQUEST_URI'] ?? ''), 2)[0];
        $parameters = array_intersect_key($_GET, array_flip(self::PARAMETERS));
        ksort($parameters);
        return 'page:' . hash('sha256', serialize([$_SERVER['HTTP_HOST'] ?? '', $path, $parameters, $isLoggedIn]));
    }

    /** Was the page found? What is read for others is not worth remembering, and anyone can ask for as many as he likes. */
    public static function wasFound(): bool
    {
        $status = http_response_code();
        return is_int($status) && $status < 300;
    }
}

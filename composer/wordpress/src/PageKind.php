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
        'p', 'page_id', 'attachment_id', 'name', 'pagename', 'post_type', 'cat', 'tag', 'author', 'm', 'paged', 'rest_route',
    ];
    private const PARAMETERS_OF_ADMINISTRATORS = ['page', 'post', 'action'];

    /**
     * @param bool $isNetwork has the host a say in which site it is? Elsewhere anyone may ask for any
     * @return string|null null for what is no page that is looked at: a change, the command line
     */
    public static function ofThisRequest(bool $isNetwork): ?string
    {
        if (PHP_SAPI === 'cli' || !in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)) {
            return null;
        }
        $path = explode('?', (string) ($_SERVER['REQUEST_URI'] ?? ''), 2)[0];
        $known = str_contains($path, '/wp-admin/') ? self::PARAMETERS_OF_ADMINISTRATORS : self::PARAMETERS;
        $parameters = array_filter(array_intersect_key($_GET, array_flip($known)), 'is_string');
        ksort($parameters);
        $host = $isNetwork ? strtolower((string) ($_SERVER['HTTP_HOST'] ?? '')) : '';
        $isLoggedIn = preg_grep('/^wordpress_logged_in_/', array_keys($_COOKIE)) !== [];
        return 'page:' . hash('sha256', serialize([$host, $path, $parameters, $isLoggedIn]));
    }

    /** Was the page found? What is read for others is not worth remembering, and anyone can ask for as many as he likes. */
    public static function wasFound(): bool
    {
        $status = http_response_code();
        return is_int($status) && $status < 300;
    }
}

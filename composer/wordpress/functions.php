<?php

/**
 * WordPress's functions of the object cache, through version 6.9, on the global $wp_object_cache. Each is documented by
 * WordPress; docs/wordpress.md says what more they promise here.
 */

declare(strict_types=1);

use Coatcheck\WordPress\ObjectCache;

class_alias(ObjectCache::class, 'WP_Object_Cache');

function wp_cache_init()
{
    $GLOBALS['wp_object_cache'] = ObjectCache::ofThisSite();
}

function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->add($key, $data, $group, (int) $expire);
}

function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->add_multiple($data, $group, (int) $expire);
}

function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->replace($key, $data, $group, (int) $expire);
}

function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set($key, $data, $group, (int) $expire);
}

function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set_multiple($data, $group, (int) $expire);
}

function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    return $GLOBALS['wp_object_cache']->get($key, $group, (bool) $force, $found);
}

function wp_cache_get_multiple($keys, $group = '', $force = false)
{
    return $GLOBALS['wp_object_cache']->get_multiple((array) $keys, $group, (bool) $force);
}

function wp_cache_delete($key, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete($key, $group);
}

function wp_cache_delete_multiple(array $keys, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete_multiple($keys, $group);
}

function wp_cache_incr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->incr($key, (int) $offset, $group);
}

function wp_cache_decr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->decr($key, (int) $offset, $group);
}

function wp_cache_flush()
{
    return $GLOBALS['wp_object_cache']->flush();
}

function wp_cache_flush_runtime()
{
    return $GLOBALS['wp_object_cache']->flush_runtime();
}

function wp_cache_flush_group($group)
{
    return $GLOBALS['wp_object_cache']->flush_group($group);
}

function wp_cache_supports($feature)
{
    return $GLOBALS['wp_object_cache']->supports($feature);
}

function wp_cache_close()
{
    return $GLOBALS['wp_object_cache']->close();
}

function wp_cache_add_global_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_global_groups($groups);
}

function wp_cache_add_non_persistent_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups);
}

function wp_cache_switch_to_blog($blog_id)
{
    $GLOBALS['wp_object_cache']->switch_to_blog($blog_id);
}

function wp_cache_reset()
{
    $GLOBALS['wp_object_cache']->reset();
}

function wp_cache_get_salted($cache_key, $group, $salt)
{
    return $GLOBALS['wp_object_cache']->get_salted($cache_key, $group, $salt);
}

function wp_cache_set_salted($cache_key, $data, $group, $salt, $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set_salted($cache_key, $data, $group, $salt, (int) $expire);
}

function wp_cache_get_multiple_salted($cache_keys, $group, $salt)
{
    return $GLOBALS['wp_object_cache']->get_multiple_salted((array) $cache_keys, $group, $salt);
}

function wp_cache_set_multiple_salted($data, $group, $salt, $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set_multiple_salted((array) $data, $group, $salt, (int) $expire);
}

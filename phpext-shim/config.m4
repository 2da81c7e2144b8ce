dnl The PHP extension "coatcheck": sessions, locks and values kept by the coatcheck daemon.

PHP_ARG_ENABLE([coatcheck],
  [whether to enable coatcheck],
  [AS_HELP_STRING([--enable-coatcheck], [Enable the coatcheck session handler and functions])],
  [yes])

PHP_ARG_ENABLE([coatcheck-werror],
  [whether warnings of the compiler are errors],
  [AS_HELP_STRING([--enable-coatcheck-werror], [Treat compiler warnings as errors (developers)])],
  [no],
  [no])

if test "$PHP_COATCHECK" != "no"; then
  dnl The C library of MessagePack is called msgpack in Debian 12 and msgpack-c in later releases.
  PKG_CHECK_MODULES([MSGPACK], [msgpack-c], [],
    [PKG_CHECK_MODULES([MSGPACK], [msgpackc], [],
      [PKG_CHECK_MODULES([MSGPACK], [msgpack], [],
        [AC_MSG_ERROR([MessagePack for C was not found: install libmsgpack-dev (Debian 12) or libmsgpack-c-dev])])])])
  PHP_EVAL_INCLINE([$MSGPACK_CFLAGS])
  PHP_EVAL_LIBLINE([$MSGPACK_LIBS], [COATCHECK_SHARED_LIBADD])
  PHP_SUBST([COATCHECK_SHARED_LIBADD])

  dnl PHP's own macros use designated and missing initializers and unused parameters freely.
  COATCHECK_CFLAGS="-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers"
  COATCHECK_CFLAGS="$COATCHECK_CFLAGS -fvisibility=hidden -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1"
  if test "$PHP_COATCHECK_WERROR" != "no"; then
    COATCHECK_CFLAGS="$COATCHECK_CFLAGS -Werror"
  fi

  PHP_NEW_EXTENSION([coatcheck],
    [coatcheck.c client.c connection.c error.c exceptions.c functions.c kv.c message.c overdue.c session.c session_daemon.c settings.c],
    [$ext_shared], [], [$COATCHECK_CFLAGS])
  PHP_ADD_EXTENSION_DEP([coatcheck], [session])
fi

# php-fpm with the coatcheck extension in it. The workers are not root.
#
#   docker build -f docker/php-fpm.Dockerfile -t coatcheck-php-fpm .
#
# The base is the official php image on Debian 12 (any PHP 8.1 to 8.5 with fpm), or plain Debian 12, whose
# own PHP is then installed.
ARG PHP_IMAGE=php:8.2-fpm-bookworm

FROM ${PHP_IMAGE} AS build
RUN apt-get update \
    && packages='autoconf gcc libc6-dev make pkg-config libmsgpack-dev' \
    && if ! command -v phpize; then packages="$packages php8.2-cli php8.2-dev"; fi \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages
COPY phpext-shim /src/phpext-shim
RUN /src/phpext-shim/build.sh

FROM ${PHP_IMAGE}
RUN apt-get update \
    && packages='libmsgpackc2' \
    && if ! command -v php-fpm; then packages="$packages php8.2-cli php8.2-fpm"; fi \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages \
    && rm -rf /var/lib/apt/lists/* \
    && if ! command -v php-fpm; then ln -s /usr/sbin/php-fpm8.2 /usr/local/sbin/php-fpm; fi
# The socket belongs to the group 10001 of docker/Dockerfile: being in it is what lets www-data in.
RUN groupadd --gid 10001 coatcheck \
    && usermod --append --groups coatcheck www-data \
    && install -d -o 10001 -g 10001 -m 0750 /run/coatcheck
COPY --from=build /src/phpext-shim/modules/coatcheck.so /usr/local/lib/coatcheck/coatcheck.so
COPY docker/php.ini /usr/local/etc/coatcheck/php/coatcheck.ini
COPY docker/php-fpm.conf /usr/local/etc/coatcheck/php-fpm.conf
# The colon: the base's own ini files first, then ours.
ENV PHP_INI_SCAN_DIR=:/usr/local/etc/coatcheck/php
USER www-data
EXPOSE 9000
STOPSIGNAL SIGQUIT
ENTRYPOINT []
CMD ["php-fpm", "--nodaemonize", "--fpm-config", "/usr/local/etc/coatcheck/php-fpm.conf"]

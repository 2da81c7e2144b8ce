# nginx that gives requests to three php-fpm pools in turns. It is not root.
#
#   docker build -f docker/front.Dockerfile -t coatcheck-front .
#
# The base is that of docker/php-fpm.Dockerfile, so that the images need no other.
ARG PHP_IMAGE=php:8.2-fpm-bookworm

FROM ${PHP_IMAGE}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light \
    && rm -rf /var/lib/apt/lists/*
COPY docker/front.conf /etc/nginx/nginx.conf
USER www-data
EXPOSE 8131
STOPSIGNAL SIGQUIT
ENTRYPOINT []
CMD ["nginx", "-e", "/dev/stderr", "-g", "daemon off;"]

#!/bin/sh
# The five masters of docker-compose.yml.
#   scripts/cluster.sh up          start them and wait until all are healthy
#   scripts/cluster.sh down        remove the containers, the network and the volumes
#   scripts/cluster.sh status      show them
#   scripts/cluster.sh renew N     replace master N (1 to 5) by one with no data
# MULTILOCK_REDIS_IMAGE names the image, and MULTILOCK_COMPOSE the command of Compose, if they are set.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-multilock}
export COMPOSE_PROJECT_NAME
services="redis1 redis2 redis3 redis4 redis5"
# Seconds: a registry that does not answer must not hold the tests up, nor a master that never gets well.
pull_bound=10
healthy_bound=60

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

# Runs a command, and prints its output only if it fails.
quietly() {
    if ! output=$("$@" 2>&1); then
        printf '%s\n' "$output" >&2
        fail "'$*' failed"
    fi
}

find_compose() {
    command -v docker >/dev/null 2>&1 ||
        fail "docker is missing; install it (on Debian: apt-get install docker.io docker-compose)"
    docker info >/dev/null 2>&1 || fail "no docker engine answers ('docker info' fails)"
    if [ -n "${MULTILOCK_COMPOSE:-}" ]; then
        compose=$MULTILOCK_COMPOSE
    elif docker compose version >/dev/null 2>&1; then
        compose="docker compose"
    elif command -v docker-compose >/dev/null 2>&1; then
        compose="docker-compose"
    else
        fail "neither 'docker compose' nor 'docker-compose' is there; install one" \
            "(on Debian: apt-get install docker-compose)"
    fi
    # This file alone: the tests must not depend on an override file of the user's own.
    compose="$compose -f docker-compose.yml"
}

# The id of a service's container, or nothing. By label: the names differ between Compose v1 and v2.
container() {
    docker ps -aq --no-trunc \
        --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
        --filter "label=com.docker.compose.service=$1"
}

choose_image() {
    if [ -n "${MULTILOCK_REDIS_IMAGE:-}" ]; then
        # A choice of the user's: another server in its place would go unnoticed.
        docker image inspect "$MULTILOCK_REDIS_IMAGE" >/dev/null 2>&1 || docker pull -q "$MULTILOCK_REDIS_IMAGE" >&2
        export MULTILOCK_REDIS_IMAGE
        return
    fi
    MULTILOCK_REDIS_IMAGE=redis:7.2-alpine
    bound=
    if command -v timeout >/dev/null 2>&1; then
        bound="timeout $pull_bound"
    fi
    if ! docker image inspect "$MULTILOCK_REDIS_IMAGE" >/dev/null 2>&1 &&
        ! $bound docker pull -q "$MULTILOCK_REDIS_IMAGE" >/dev/null 2>&1; then
        [ ! -t 2 ] || echo "$MULTILOCK_REDIS_IMAGE cannot be pulled within $pull_bound s: an image is built from the redis-server of this machine" >&2
        MULTILOCK_REDIS_IMAGE=multilock-redis:local
        "$here/redis-image.sh" "$MULTILOCK_REDIS_IMAGE"
    fi
    export MULTILOCK_REDIS_IMAGE
}

wait_healthy() {
    deadline=$(($(date +%s) + healthy_bound))
    for service in $services; do
        while :; do
            id=$(container "$service")
            health=$(docker inspect -f '{{.State.Status}}/{{.State.Health.Status}}' "$id")
            [ "$health" = running/healthy ] && break
            case $health in exited/* | dead/*)
                docker logs --tail 20 "$id" >&2
                fail "$service has ended"
                ;;
            esac
            [ "$(date +%s)" -lt "$deadline" ] ||
                fail "$service is '$health' after $healthy_bound s"
            sleep 0.3
        done
    done
}

# A paused container can be neither stopped nor asked.
unpause_all() {
    for service in $services; do
        id=$(container "$service")
        [ -z "$id" ] || [ "$(docker inspect -f '{{.State.Paused}}' "$id")" = false ] ||
            quietly docker unpause "$id"
    done
}

up() {
    choose_image
    unpause_all
    quietly $compose up -d
    wait_healthy
}

down() {
    unpause_all
    quietly $compose down -v --remove-orphans
}

renew() {
    case $1 in [1-5]) ;; *) fail "renew takes a number from 1 to 5, not '$1'" ;; esac
    service=redis$1
    id=$(container "$service")
    [ -n "$id" ] || fail "$service is not there; start the cluster by 'scripts/cluster.sh up'"
    # The same image as before: the choice was made by `up`.
    MULTILOCK_REDIS_IMAGE=$(docker inspect -f '{{.Config.Image}}' "$id")
    export MULTILOCK_REDIS_IMAGE
    volumes=$(docker inspect -f '{{range .Mounts}}{{.Name}} {{end}}' "$id")
    quietly docker rm -f "$id"
    # A named volume outlives its container.
    for volume in $volumes; do
        quietly docker volume rm "$volume"
    done
    quietly $compose up -d --no-deps "$service"
}

command=${1:-}
case $command in
up | down | status)
    [ $# -eq 1 ] || fail "'$command' takes no argument"
    ;;
renew)
    [ $# -eq 2 ] || fail "'renew' takes a number from 1 to 5"
    ;;
*)
    echo "usage: scripts/cluster.sh up | down | status | renew N" >&2
    exit 2
    ;;
esac

find_compose
case $command in
up) up ;;
down) down ;;
status) $compose ps ;;
renew) renew "$2" ;;
esac

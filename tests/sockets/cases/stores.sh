# Stores: redis, memcached, postgres.
cases+=(redis memcached postgres)
quick+=(redis memcached postgres)
between+=(redis)

case_redis() {
    need redis-server redis-cli redis-benchmark
    server redis-server --port "$PORT" --bind "$HOST" --protected-mode no --save '' --dir "$D" --enable-debug-command yes
    client redis-benchmark -h "$HOST" -p "$PORT" -q -c 1 -n 3000 -t get,set
    client redis-benchmark -h "$HOST" -p "$PORT" -q -c 20 -n 20000 -t get,set,lpush,lrange_100
    client redis-benchmark -h "$HOST" -p "$PORT" -q -c 10 -n 20000 -P 16 -d 1000 -t get,set
    # The child that saves inherits the connections.
    client redis-cli -h "$HOST" -p "$PORT" bgsave
    client redis-benchmark -h "$HOST" -p "$PORT" -q -c 5 -n 5000 -t set
    head -c 3000000 /dev/urandom | base64 -w 0 >"$D/value"
    client redis-cli -h "$HOST" -p "$PORT" -x set big <"$D/value"
    client redis-cli -h "$HOST" -p "$PORT" get big | head -c -1 | cmp - "$D/value"
    [ "$(client redis-cli -h "$HOST" -p "$PORT" strlen big)" = "$(stat -c %s "$D/value")" ]
}

case_memcached() {
    need memcached
    server memcached -l "$HOST" -p "$PORT" -U 0 -t 2 -m 64 -I 2m
    client python3 tests/sockets/talk.py memcached "$HOST:$PORT"
}

case_postgres() {
    local folder
    folder=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
    need pgbench "$folder/initdb"
    # One data folder serves all combinations.
    if [ ! -e "$FOLDER/postgres/PG_VERSION" ]; then
        "$folder/initdb" --pgdata "$FOLDER/postgres" --username judge --auth trust --no-sync
        echo "host all all samenet trust" >>"$FOLDER/postgres/pg_hba.conf"
    fi
    server "$folder/postgres" -D "$FOLDER/postgres" -h "$HOST" -p "$PORT" -c fsync=off -c "unix_socket_directories=$D"
    until "$folder/pg_isready" -q -h "$HOST" -p "$PORT"; do sleep 0.05; done
    export PGHOST=$HOST PGPORT=$PORT PGUSER=judge PGDATABASE=postgres PGSSLMODE=disable
    client pgbench --initialize --quiet --scale 1
    client pgbench --client 4 --jobs 2 --transactions 100
    client pgbench --client 4 --transactions 200 --select-only --protocol prepared
    [ "$(client psql -Atc "select sum(length(repeat(i::text, 1000))) from generate_series(1, 5000) i")" = 18893000 ]
    [ "$(client psql -Atc "select repeat('x', 1000000)" | wc -c)" = 1000001 ]
}

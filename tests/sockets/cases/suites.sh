# The tests that redis and libuv have themselves, on Debian's programs, and node, which is made of libuv.
cases+=(redis-own libuv-own node)
quick+=(node)
for name in redis-own libuv-own; do alone[$name]=yes senders[$name]=client judged[$name]=octets; done
for name in libuv-own node; do eager[$name]=--eager; done

case_redis-own() {
    local program unit passed patience=600
    need tclsh redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb
    source_of redis
    for program in server cli benchmark check-aof check-rdb; do
        ln -sf "$(command -v "redis-$program")" "$FOLDER/redis/src/redis-$program"
    done
    # It tries each port with 10,000 added, too. unit/pubsub and unit/type/list write to two connections and expect
    # the server to hear of them in this order.
    for unit in unit/networking unit/querybuf unit/obuf-limits unit/protocol unit/tracking unit/pubsub unit/type/list \
        integration/block-repl integration/replication-psync integration/psync2; do
        (cd "$FOLDER/redis" && client ./runtest --clients 2 --baseport $((PORT - 40000)) --portcount 300 --single "$unit") >"$D/unit" 2>&1 ||
            { [ $? != 124 ] || echo "[err]: $unit hangs"; } >>"$D/unit"
        passed=$(grep -c 'ok.*\]:' "$D/unit") || { cat "$D/unit" && return 1; }
        sed 's/\x1b\[[0-9;]*m//g' "$D/unit" | grep -oE '^\[(err|exception)\]: .*' >"$D/failures" || true
        fail_as_plain redis "$D/failures" || { tail -n 40 "$D/unit" && bad=yes; }
        echo "$unit: $passed passed"
    done
    [ -z "${bad:-}" ]
}

case_libuv-own() {
    local build=$FOLDER/libuv1.build name
    need gcc
    source_of libuv1
    [ -x "$build/tests" ] || (cd "$FOLDER/libuv1" && build_libuv_tests "$build")
    "$build/tests" --list 2>/dev/null | grep -oE '^ *[a-z0-9_]+' | grep -E '^ *(tcp|poll|ipc|pipe|shutdown|fork|spawn)_|^ *(callback_stack|connection_fail|delayed_accept|multiple_listen|watcher_cross_stop|emfile)' |
        sort -u >"$D/names"
    while read -r name; do
        client "$build/tests" "$name" >"$D/$name" 2>&1 </dev/null || echo "$name"
    done <"$D/names" >"$D/failures"
    echo "$(wc -l <"$D/names") tests, $(wc -l <"$D/failures") failed"
    [ -s "$D/names" ] && fail_as_plain libuv "$D/failures"
}

# build_libuv_tests FOLDER: compiles libuv and its tests, as its CMakeLists.txt does on Linux.
build_libuv_tests() {
    local parts compile tests
    parts=$(sed -n '/^else()/,/^endif()/p; /"Android|Linux"/,/^endif()/p; /STREQUAL "Linux"/,/^endif()/p' CMakeLists.txt |
        grep -oE 'src/unix/[a-z-]+\.c' | sort -u)
    tests=$(grep -oE 'test/[a-z0-9-]+\.c' CMakeLists.txt | grep -vE 'runner-win|benchmark' | sort -u)
    compile="gcc -w -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_LARGEFILE_SOURCE -I$PWD/include -I$PWD/src"
    mkdir -p "$1/objects"
    # shellcheck disable=SC2086
    (cd "$1/objects" && $compile -c $(printf "$OLDPWD/%s " $parts src/*.c) && ar cr ../libuv.a ./*.o)
    # shellcheck disable=SC2086
    $compile -o "$1/tests" $tests "$1/libuv.a" -lpthread -ldl
}

case_node() {
    need node
    server node tests/sockets/talk.js server "$HOST:$PORT"
    client node tests/sockets/talk.js client "$HOST:$PORT"
}

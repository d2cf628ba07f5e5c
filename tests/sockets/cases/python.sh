# Python: its servers, and its own tests.
cases+=(asyncio socketserver forking multiprocessing tornado gevent cpython-few cpython)
quick+=(asyncio forking multiprocessing tornado cpython-few)
between+=(asyncio)
alone[cpython-few]=yes alone[cpython]=yes eager[cpython-few]=--eager eager[cpython]=--eager
senders[cpython-few]=client senders[cpython]=client
for name in asyncio socketserver forking multiprocessing tornado gevent; do eager[$name]=--eager; done

talk() {
    server /usr/bin/python3 tests/sockets/talk.py "$1" "$HOST:$PORT"
    client /usr/bin/python3 tests/sockets/talk.py "$2" "$HOST:$PORT"
}

case_asyncio() { talk asyncio asyncio-client; }
case_socketserver() { talk threading echo-client; }
case_forking() { talk forking echo-client; }
case_multiprocessing() { talk listener listener-client; }

case_tornado() {
    /usr/bin/python3 -c 'import tornado' 2>/dev/null || skip "no python3-tornado"
    talk tornado echo-client
}

case_gevent() {
    /usr/bin/python3 -c 'import gevent' 2>/dev/null || skip "no python3-gevent"
    talk gevent echo-client
}

case_cpython-few() {
    cpython epoll select socketserver asyncio.test_sock_lowlevel asyncio.test_streams asyncio.test_server \
        asyncio.test_selector_events httplib telnetlib asyncore
}

case_cpython() {
    cpython socket selectors poll asyncio.test_ssl asyncio.test_sslproto ssl ftplib xmlrpc subprocess smtplib poplib \
        imaplib nntplib urllib2_localnet httpservers wsgiref asynchat smtpd sendfile eintr \
        multiprocessing_fork.TestListener multiprocessing_fork.WithProcessesTestListenerClient
}

# cpython MODULE...: runs modules of CPython's own tests.
cpython() {
    local module patience=600
    need /usr/bin/python3.11 /usr/lib/python3.11/test/test_socket.py
    for module in "$@"; do
        (cd "$D" && client /usr/bin/python3.11 -m unittest "test.test_$module") >"$D/module" 2>&1 ||
            { [ $? != 124 ] || echo "HANG: $module"; } >>"$D/module"
        tail -n 1 "$D/module"
        grep -E '^(FAIL|ERROR|HANG): ' "$D/module" >"$D/failures" || true
        fail_as_plain cpython "$D/failures" || { tail -n 40 "$D/module" && bad=yes; }
    done
    [ -z "${bad:-}" ]
}

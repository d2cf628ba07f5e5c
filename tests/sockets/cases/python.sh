# Python: its servers, and its own tests.
cases+=(asyncio socketserver forking multiprocessing tornado gevent)
quick+=(asyncio forking multiprocessing tornado)
for name in asyncio socketserver forking multiprocessing tornado gevent; do eager[$name]=--eager; done

talk() {
    server /usr/bin/python3 tests/sockets/talk.py "$1" "$PORT"
    client /usr/bin/python3 tests/sockets/talk.py "$2" "$PORT"
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

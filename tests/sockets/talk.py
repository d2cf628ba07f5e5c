"""Servers and clients of the judges: talk.py KIND ADDRESS:PORT [FOLDER]. A client ends with status 0 if all octets were right."""

import asyncio
import hashlib
import http.server
import multiprocessing.connection
import random
import socket
import socketserver
import sys
import threading


def body(number):
    """Returns octets of a chosen length, the same for the same number."""
    chance = random.Random(number)
    return chance.randbytes(chance.choice([1, 8, 40, 41, 1000, 70_000, 300_000]))


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it receives."""

    def handle(self):
        while octets := self.request.recv(65536):
            self.request.sendall(octets)


class Threading(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


class Forking(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64


def echo_client(place):
    """Eight connections in threads, twenty messages each, sent and received side by side."""
    wrong = []

    def talk(number):
        with socket.create_connection(place, timeout=60) as connection:
            for turn in range(20):
                octets = body(number * 100 + turn)
                sender = threading.Thread(target=connection.sendall, args=(octets,))
                sender.start()
                got = bytearray()
                while len(got) < len(octets):
                    more = connection.recv(100_000)
                    if not more:
                        break
                    got += more
                sender.join()
                if got != octets:
                    wrong.append((number, turn, len(got), len(octets)))
                    return
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1):
                wrong.append((number, "end"))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(f"wrong: {wrong}" if wrong else 0)


async def asyncio_server(place):
    async def handle(reader, writer):
        while octets := await reader.read(65536):
            writer.write(octets)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, *place, backlog=64)
    await server.serve_forever()


async def asyncio_client(place):
    async def talk(number):
        reader, writer = await asyncio.open_connection(*place)
        for turn in range(20):
            octets = body(number * 100 + turn)
            writer.write(octets)
            got = await asyncio.wait_for(reader.readexactly(len(octets)), 60)
            assert got == octets, (number, turn)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    await asyncio.gather(*(talk(number) for number in range(16)))


def listener(place):
    """Answers each object with its digest, in a process for each connection."""

    def serve(connection):
        try:
            while True:
                octets = connection.recv()
                connection.send((len(octets), hashlib.sha256(octets).hexdigest()))
        except EOFError:
            pass

    context = multiprocessing.get_context("fork")
    with multiprocessing.connection.Listener(place, backlog=16) as server:
        while True:
            connection = server.accept()
            process = context.Process(target=serve, args=(connection,), daemon=True)
            process.start()
            connection.close()


def listener_client(place):
    for number in range(6):
        with multiprocessing.connection.Client(place) as connection:
            for turn in range(20):
                octets = body(number * 100 + turn)
                connection.send(octets)
                assert connection.recv() == (len(octets), hashlib.sha256(octets).hexdigest())


def memcached(place):
    """Sets and gets, pipelined, over eight connections at a time."""

    def line(file):
        return file.readline().strip()

    connections = [socket.create_connection(place, timeout=60) for _ in range(8)]
    files = [connection.makefile("rwb") for connection in connections]
    for turn in range(6):
        for number, file in enumerate(files):
            for key in range(8):
                octets = body(turn * 1000 + number * 10 + key)
                file.write(b"set k%d.%d 0 0 %d\r\n%s\r\n" % (number, key, len(octets), octets))
        for file in files:
            file.flush()
        for file in files:
            assert [line(file) for _ in range(8)] == [b"STORED"] * 8
        for number, file in enumerate(files):
            for key in range(8):
                file.write(b"get k%d.%d\r\n" % (number, key))
            file.flush()
        for number, file in enumerate(files):
            for key in range(8):
                octets = body(turn * 1000 + number * 10 + key)
                assert line(file) == b"VALUE k%d.%d 0 %d" % (number, key, len(octets))
                assert file.read(len(octets) + 2) == octets + b"\r\n" and line(file) == b"END"


def tornado(place):
    import tornado.ioloop
    import tornado.iostream
    import tornado.tcpserver

    class Server(tornado.tcpserver.TCPServer):
        async def handle_stream(self, stream, address):
            try:
                while True:
                    await stream.write(await stream.read_bytes(65536, partial=True))
            except tornado.iostream.StreamClosedError:
                pass

    Server().listen(place[1], place[0])
    tornado.ioloop.IOLoop.current().start()


def gevent(place):
    from gevent.server import StreamServer

    def handle(connection, address):
        while octets := connection.recv(65536):
            connection.sendall(octets)

    StreamServer(place, handle).serve_forever()


def httpd(place):
    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=sys.argv[3])

        def log_message(self, *arguments):
            pass

    http.server.ThreadingHTTPServer(place, Handler).serve_forever()


def main():
    kind = sys.argv[1]
    host, port = sys.argv[2].rsplit(":", 1)
    place = (host, int(port))
    kinds = {
        "asyncio": lambda: asyncio.run(asyncio_server(place)),
        "asyncio-client": lambda: asyncio.run(asyncio_client(place)),
        "threading": lambda: Threading(place, Echo).serve_forever(),
        "forking": lambda: Forking(place, Echo).serve_forever(),
        "echo-client": lambda: echo_client(place),
        "listener": lambda: listener(place),
        "listener-client": lambda: listener_client(place),
        "memcached": lambda: memcached(place),
        "tornado": lambda: tornado(place),
        "gevent": lambda: gevent(place),
        "httpd": lambda: httpd(place),
    }
    kinds[kind]()


main()

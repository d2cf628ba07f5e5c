# Prints what waits say of connections that are upgraded, if a trace says so. The argument is the step to take.
import select, socket, sys, threading, time, signal, os, errno, struct

listener = socket.create_server(('127.0.0.1', 0))

def pair():
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for end in a, b: end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return a, b

trace = os.environ.get('WEFT_SOCKETS_TRACE')

def is_upgraded(*ends):
    "True if the trace says so. It has nothing but this process's present connections."
    lines = open(trace).read().split('\n') if trace and os.path.exists(trace) else []
    return not trace or all(any(line.split(' ')[1:3] == [f'{end.fileno()}:', 'sends'] for line in lines) for end in ends)

def warm(a, b):
    "Moves octets both ways until both ends are upgraded."
    if trace and os.path.exists(trace): os.truncate(trace, 0)
    for turn in range(5000):
        if turn > 40 and is_upgraded(a, b): return a, b
        for one, other in (a, b), (b, a):
            one.send(b'warm')
            while not select.select([other], [], [], 5)[0]: pass
            assert other.recv(4) == b'warm'
    print('not upgraded')
    return a, b

def bits(poll, limit=0):
    return sorted((tags.get(fd, fd), mask) for fd, mask in poll.poll(limit))

tags = {}
def name(**sockets):
    tags.clear()
    for tag, end in sockets.items(): tags[end.fileno()] = tag

ALL = select.POLLIN | select.POLLOUT | select.POLLPRI | getattr(select, 'POLLRDHUP', 0x2000)

def polls():
    a, b = warm(*pair()); name(a=a, b=b)
    p = select.poll(); p.register(a, ALL); p.register(b, ALL)
    print('fresh', bits(p))
    a.send(b'hello'); wait(b)
    print('octets', bits(p), [len(x) for x in select.select([a, b], [a, b], [a, b], 0)])
    print('peek', b.recv(2, socket.MSG_PEEK), b.recv(3), bits(p))
    b.recv(10)
    a.shutdown(socket.SHUT_WR); wait(b)
    print('half', bits(p), b.recv(10))
    b.send(b'still'); wait(a)
    print('back', bits(p), a.recv(10))
    b.close()
    wait_for(lambda: bits(p1(a)) and bits(p1(a))[0][1] & select.POLLHUP)
    print('closed', bits(p1(a)), a.recv(10))

def p1(end):
    p = select.poll(); p.register(end, ALL); return p

def wait(end):
    select.select([end], [], [], 10)

def wait_for(test):
    for _ in range(1000):
        if test(): return
        time.sleep(0.01)
    print('never')

def unread():
    a, b = warm(*pair()); name(a=a, b=b)
    a.send(b'x' * 1000); wait(b); b.close()
    wait_for(lambda: bits(p1(a))[0][1] & (select.POLLHUP | select.POLLERR))
    print('reset', bits(p1(a)))
    try: print(a.recv(10))
    except OSError as error: print(errno.errorcode[error.errno])
    print('after', bits(p1(a)))

def full():
    a, b = warm(*pair()); name(a=a, b=b)
    a.setblocking(False)
    sent = 0
    try:
        while True: sent += a.send(bytes(10000))
    except BlockingIOError: pass
    print('full', bits(p1(a)), select.select([], [a], [], 0)[1] == [])
    while sent: sent -= len(b.recv(min(sent, 65536)))
    wait_for(lambda: select.select([], [a], [], 0)[1])
    print('empty', bits(p1(a)), bits(p1(b)))

E = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP

def epolls(mode, title):
    a, b = warm(*pair()); name(a=a, b=b)
    e = select.epoll(); e.register(a, E | mode); e.register(b, E | mode)
    def show(*what): print(title, *what, bits(e))
    show('first'); show('again')
    a.send(b'one'); wait(b); show('octets'); show('octets again')
    a.send(b'two'); wait_for(lambda: len(b.recv(9, socket.MSG_PEEK)) == 6); show('more')
    b.recv(3); show('partly')
    b.recv(10); show('read')
    e.modify(b, select.EPOLLIN | mode); show('modified')
    a.send(b'three'); wait(b); show('only in')
    e.modify(b, select.EPOLLIN | select.EPOLLOUT | mode); show('modified back')
    e.unregister(a); show('without a')
    a.shutdown(socket.SHUT_WR); wait_for(lambda: bits(p1(b))[0][1] & 0x2000); show('half'); show('half again')
    a.close(); b.recv(10)
    b.close(); show('closed')

def early():
    "The set has the sockets before they are upgraded."
    a, b = pair(); name(a=a, b=b)
    e = select.epoll(); e.register(a, select.EPOLLIN); e.register(b, select.EPOLLIN | select.EPOLLET)
    warm(a, b)
    print('early', [fd for fd, _ in bits(e)] in (['b'], []))
    a.send(b'x'); wait(b); print(bits(e), bits(e)); b.recv(1)
    b.send(b'y'); wait(a); print(bits(e), bits(e)); a.recv(1)
    print(bits(e))

def sleeps():
    "Threads that sleep are woken, and waits end in time."
    a, b = warm(*pair()); name(a=a, b=b)
    got = []
    def later(seconds, what): t = threading.Timer(seconds, what); t.start(); return t
    for wait_one in (lambda: b.recv(1), lambda: wait(b), lambda: p1(b).poll(5000) and 0, lambda: in_epoll(b)):
        t = later(0.05, lambda: a.send(b'x')); wait_one(); t.join()
        got.append(select.select([b], [], [], 0)[0] == [b])
        if got[-1]: b.recv(1)
    print('woken', got)
    start = time.monotonic(); print(select.select([b], [], [], 0.05)[0], p2(b).poll(50), in_epoll(b, 0.05))
    print('in time', time.monotonic() - start > 0.14)
    b.settimeout(0.05)
    try: b.recv(1)
    except TimeoutError: print('timeout')
    b.setblocking(True); b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 50000))
    try: b.recv(1)
    except BlockingIOError: print('SO_RCVTIMEO')

def p2(end):
    p = select.poll(); p.register(end, select.POLLIN); return p

def in_epoll(end, limit=5):
    e = select.epoll(); e.register(end, select.EPOLLIN)
    return [mask for _, mask in e.poll(limit)]

def signals():
    a, b = warm(*pair())
    def handler(*_): raise KeyError
    for wait_one in (lambda: b.recv(1), lambda: select.select([b], [], [], 5), lambda: p2(b).poll(5000), lambda: in_epoll(b)):
        signal.signal(signal.SIGALRM, handler); signal.setitimer(signal.ITIMER_REAL, 0.05)
        try: wait_one(); print('not interrupted')
        except KeyError: print('interrupted')
    def send(*_): a.send(b's')
    signal.signal(signal.SIGALRM, send)
    for wait_one in (lambda: b.recv(1), lambda: select.select([b], [], [], 5)[0] and b.recv(1), lambda: in_epoll(b) and b.recv(1)):
        signal.setitimer(signal.ITIMER_REAL, 0.05); print('sent by a handler', wait_one())

def nested():
    a, b = warm(*pair()); name(a=a, b=b)
    inner, outer = select.epoll(), select.epoll()
    inner.register(b, select.EPOLLIN); outer.register(inner.fileno(), select.EPOLLIN)
    quiet = [len(outer.poll(0)), len(select.select([inner], [], [], 0)[0])]
    a.send(b'x'); wait(b)
    print('nested', quiet, len(outer.poll(0)), len(select.select([inner], [], [], 0)[0]), len(inner.poll(0)))
    b.recv(1); print(len(outer.poll(0)), len(select.select([inner], [], [], 0)[0]))
    threading.Timer(0.05, lambda: a.send(b'y')).start()
    print(len(outer.poll(5)), len(select.select([inner], [], [], 5)[0]), b.recv(1))

def many():
    pairs = [warm(*pair()) for _ in range(30)]
    e = select.epoll()
    for _, b in pairs: e.register(b, select.EPOLLIN)
    for a, _ in pairs: a.send(b'x')
    for _, b in pairs: wait(b)
    seen = {}
    for _ in range(60):
        for fd, _ in e.poll(0, 4): seen[fd] = seen.get(fd, 0) + 1
    print('many', len(seen), min(seen.values()) > 2)
    p = select.poll()
    for a, b in pairs: p.register(a, select.POLLIN); p.register(b, select.POLLIN)
    print(len(p.poll(0)), len(select.select([b for _, b in pairs], [], [], 0)[0]))

def threads():
    "Threads that share one set get each event once."
    a, b = warm(*pair())
    e = select.epoll(); e.register(b, select.EPOLLIN | select.EPOLLET)
    count, lock = [0, 0], threading.Lock()
    def run():
        while True:
            for fd, _ in e.poll(5):
                while True:
                    try: data = b.recv(100, socket.MSG_DONTWAIT)
                    except BlockingIOError: break
                    with lock: count[0] += len(data)
                    if b'q' in data or not data:
                        b2.send(b'.'); return
            if count[1]: return
    a2, b2 = socket.socketpair()
    t = [threading.Thread(target=run, daemon=True) for _ in range(3)]
    [one.start() for one in t]
    for _ in range(2000): a.send(b'x')
    a.send(b'q'); a2.recv(1)
    print('threads', count[0])

eval(sys.argv[1])

# Prints what waits say of connections that are upgraded, if a trace says so. The argument is the step to take.
import random, select, socket, subprocess, sys, threading, time, signal, os, errno, struct

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
    # The daemon rings the new doorbell of the inner set once: the first wait may tell of it.
    outer.poll(0); time.sleep(0.05)
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

def crowd():
    "A set of many silent members sleeps, and is woken by each of them, whatever other threads and the program do to them."
    pairs = [warm(*pair()) for _ in range(30)]
    e = select.epoll()
    for _, b in pairs: e.register(b, select.EPOLLIN)
    dice, told = random.Random(5), 0
    for turn in range(60):
        a, b = pairs[dice.randrange(30)]
        other = pairs[dice.randrange(30)][1]
        # Another thread waits for octets of a member meanwhile, and gets none.
        sleeper = threading.Thread(target=lambda: p1(other).poll(1)) if turn % 3 == 0 else None
        if sleeper: sleeper.start()
        timer = threading.Timer((0, 0.002, 0.015)[turn % 3], lambda: a.send(b'x')); timer.start()
        told += [fd for fd, _ in e.poll(5)] == [b.fileno()]
        timer.join(); b.recv(1)
        if sleeper: sleeper.join()
    print('told', told)
    a, b = pairs[7]; name(b=b)
    e.unregister(b); a.send(b'x'); wait(b); print('removed', bits(e, 0.02))
    e.register(b, select.EPOLLIN); print('back', bits(e, 5))
    b.recv(1); print('quiet', bits(e, 0.02))
    e.modify(b, select.EPOLLIN | select.EPOLLOUT); print('room', bits(e, 5))
    e.modify(b, select.EPOLLIN); print('none', bits(e, 0.02))
    threading.Timer(0.02, a.close).start(); print('closed', bits(e, 5), b.recv(1))

kept = []
def threads():
    "Threads that share one set get each event once."
    a, b = warm(*pair())
    kept.append(a) # Its end would be told to the other threads.
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
    # Another thread may have octets that it has not counted yet.
    wait_for(lambda: count[0] >= 2001)
    print('threads', count[0])

def shared_out():
    "Of threads that sleep in one set each hears of a connection, though each takes one event at a time."
    (a, b), (c, d) = warm(*pair()), warm(*pair())
    e = select.epoll()
    for end in b, d: e.register(end, select.EPOLLIN | select.EPOLLET)
    for turn in range(50):
        told, both = [], threading.Event()
        def run():
            told.extend(fd for fd, _ in e.poll(5, 1))
            if len(told) == 2: both.set()
            both.wait(4)
        t = [threading.Thread(target=run) for _ in range(2)]
        [one.start() for one in t]
        time.sleep(0.01)
        a.send(b'x'); c.send(b'x')
        is_late = not both.wait(4)
        [one.join() for one in t]
        if is_late: break
        b.recv(1); d.recv(1)
    print('late', is_late)

def error_of(call):
    try: call(); return 'none'
    except OSError as error: return errno.errorcode[error.errno]

def removed():
    "Members that are removed are not told, and come back as new ones."
    a, b = warm(*pair()); name(a=a, b=b)
    e = select.epoll(); e.register(b, select.EPOLLIN | select.EPOLLET)
    a.send(b'one'); wait(b); print('before', bits(e), bits(e))
    e.unregister(b); print('removed', bits(e), error_of(lambda: e.unregister(b)), error_of(lambda: e.modify(b, select.EPOLLIN)))
    a.send(b'two'); wait_for(lambda: len(b.recv(9, socket.MSG_PEEK)) == 6); print('not told', bits(e))
    e.register(b, select.EPOLLIN | select.EPOLLET); print('back', error_of(lambda: e.register(b, 0)), bits(e), bits(e))
    b.recv(9); e.unregister(b); e.register(b, select.EPOLLOUT); print('room', bits(e))
    e.modify(b, select.EPOLLIN); print('no octets', bits(e))
    a.send(b'three'); wait(b); print('octets', bits(e), b.recv(9))
    e.unregister(b); a.close(); wait_for(lambda: b.recv(1, socket.MSG_PEEK) == b''); print('its end', bits(e))
    e.register(b, select.EPOLLIN | select.EPOLLOUT); print('told', bits(e), bits(e))
    e.unregister(b); b.close()
    c, d = warm(*pair()); name(c=c, d=d)
    e.register(c, select.EPOLLIN); e.register(d, select.EPOLLIN); print('others', bits(e))
    d.send(b'x'); wait(c); print('of the others', bits(e))

def removed_inside():
    "A set in a set tells nothing of a member that was removed before."
    a, b = warm(*pair()); name(a=a, b=b)
    inner, outer = select.epoll(), select.epoll()
    inner.register(b, select.EPOLLIN); inner.unregister(b); outer.register(inner.fileno(), select.EPOLLIN)
    print('quiet', len(outer.poll(0)), len(select.select([inner], [], [], 0)[0]))
    a.close(); wait(b)
    print('still', len(outer.poll(0.1)), len(select.select([inner], [], [], 0)[0]))
    inner.register(b, select.EPOLLIN); print('back', len(outer.poll(5)), bits(inner))

ECHO = '''import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True: s.send(s.recv(9))'''

def killed(are_apart=False):
    "A program that waits by a set and reads without waiting hears that its peer was killed, by any wait."
    cpus = sorted(os.sched_getaffinity(0))
    if are_apart: os.sched_setaffinity(0, cpus[:1])
    for title, ask in (('set', lambda e, a: e.poll(5)), ('poll', lambda e, a: p2(a).poll(5000)), ('none', lambda e, a: wait_for(lambda: is_over(a)))):
        child = subprocess.Popen([sys.executable, '-c', ECHO, str(listener.getsockname()[1])])
        if are_apart: os.sched_setaffinity(child.pid, cpus[-1:])
        a, _ = listener.accept()
        if trace: os.truncate(trace, 0)
        for turn in range(5000):
            if turn > 40 and is_upgraded(a): break
            a.send(b'x'); a.recv(1)
        e = select.epoll(); e.register(a, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        a.setblocking(False); e.poll(0)
        print(title, [error_of(lambda: a.recv(1)) for _ in range(3)])
        child.kill(); child.wait(); ask(e, a)
        print([a.recv(1) for _ in range(3)])

SINK = '''import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
while order := sys.stdin.buffer.raw.read(1):
    s.recv(1) if order == b'r' else s.send(b'unread')
    print(flush=True)'''

def unheard():
    "A program whose peer reads no more hears that the peer was killed, past octets of the peer that it has not read."
    for blocks in False, True:
        child = subprocess.Popen([sys.executable, '-c', SINK, str(listener.getsockname()[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        a, _ = listener.accept(); name(a=a)
        def order(what): child.stdin.write(what); child.stdout.readline()
        if trace: os.truncate(trace, 0)
        for turn in range(5000):
            if turn > 40 and is_upgraded(a): break
            a.send(b'x'); order(b'r')
        else: print('not upgraded')
        a.setblocking(False)
        try:
            while True: a.send(bytes(10000))
        except BlockingIOError: pass
        order(b's'); wait(a)
        child.kill(); child.wait()
        wait_for(lambda: bits(p1(a))[0][1] & 0x2000)
        a.setblocking(blocks)
        print(error_of(lambda: a.send(b'x')), a.recv(9), a.recv(9))

STUFFER = '''import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
while order := sys.stdin.buffer.raw.read(1):
    if order == b'r': s.recv(1)
    else:
        # Its octets go by TCP from now on.
        s.send(b'!', socket.MSG_OOB)
        s.setblocking(False)
        try:
            while True: s.send(bytes(10000))
        except BlockingIOError: pass
    print(flush=True)'''

def stuffed():
    "A program that waits for room hears that its peer was killed, though the FIN waits behind octets that it does not read."
    child = subprocess.Popen([sys.executable, '-c', STUFFER, str(listener.getsockname()[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    a, _ = listener.accept()
    def order(what): child.stdin.write(what); child.stdout.readline()
    if trace: os.truncate(trace, 0)
    for turn in range(5000):
        if turn > 40 and is_upgraded(a): break
        a.send(b'x'); order(b'r')
    else: print('not upgraded')
    order(b's')
    threading.Timer(0.5, child.kill).start()
    try:
        while True: a.send(bytes(10000))
    except (ConnectionResetError, BrokenPipeError): print('ended')
    child.wait()

WRITER = '''import socket, sys
ends = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(4)]
for end in ends: end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while octets := sys.stdin.buffer.raw.read(4):
    for octet in octets: ends[octet % 8].send(b'x') if octet < 8 else ends[octet % 8].recv(1)'''

def ordered():
    "A program writes to several connections. The set tells them in this order, by rings and behind TCP."
    writer = subprocess.Popen([sys.executable, '-c', WRITER, str(listener.getsockname()[1])], stdin=subprocess.PIPE, bufsize=0)
    ends = [listener.accept()[0] for _ in range(4)]
    rings, mixed = select.epoll(), select.epoll()
    for end in ends[:3]: rings.register(end, select.EPOLLIN)
    # Such a member stays on TCP.
    mixed.register(ends[0], select.EPOLLIN); mixed.register(ends[3], select.EPOLLIN | select.EPOLLEXCLUSIVE)
    if trace: os.truncate(trace, 0)
    for turn in range(5000):
        if turn > 100 and is_upgraded(*ends[:3]): break
        for number, end in enumerate(ends):
            writer.stdin.write(bytes([number, number + 8])); end.recv(1); end.send(b'x')
    else: print('not upgraded')
    for title, e, choose in ('rings', rings, lambda: random.sample((0, 1, 2), 3)), ('mixed', mixed, lambda: (3, 0)):
        wrong = 0
        for _ in range(1000):
            order, told = choose(), []
            # The kernel keeps members that were told in its list until it finds them silent.
            e.poll(0); writer.stdin.write(bytes(order))
            while len(told) < len(order):
                for fd, _ in e.poll(): told.append(fd); os.read(fd, 9)
            wrong += told != [ends[number].fileno() for number in order]
        print(title, wrong)

def is_over(end):
    try: return end.recv(1, socket.MSG_PEEK) == b''
    except BlockingIOError: return False

def rearmed():
    "A thread that sleeps in a set hears of what another thread asks for there."
    a, b = warm(*pair()); name(a=a, b=b)
    for title, first, ask in (
        ('once more', lambda e: e.register(b, select.EPOLLIN | select.EPOLLONESHOT) or bits(e) or e,
            lambda e: e.modify(b, select.EPOLLIN | select.EPOLLONESHOT)),
        ('room', lambda e: e.register(b, 0), lambda e: e.modify(b, select.EPOLLOUT)),
        ('back', lambda e: e.register(b, select.EPOLLIN) or e.unregister(b), lambda e: e.register(b, select.EPOLLIN)),
        ('new', lambda e: e.register(listener, select.EPOLLIN), lambda e: e.register(b, select.EPOLLIN))):
        for comes_late in False, True:
            e = select.epoll()
            if not comes_late: a.send(b'x'); wait(b)
            first(e)
            told = []
            sleeper = threading.Thread(target=lambda: told.extend(bits(e, 4))); sleeper.start()
            time.sleep(0.05); ask(e)
            if comes_late: time.sleep(0.05); a.send(b'x')
            sleeper.join(); print(title, comes_late, told)
            wait(b); b.recv(1)

eval(sys.argv[1])

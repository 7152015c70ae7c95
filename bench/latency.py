"""Times of single connections for bench/proxy: a server of events, and a client that takes its targets by turns.

latency.py serve PORT
latency.py measure ROUNDS LABEL=NAME:PORT...
latency.py first ROUNDS NAME SERVE_ONE ROOTS
"""
import asyncio, socket, ssl, statistics, subprocess, sys, time

NOW = time.perf_counter


def context():
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.check_hostname, own.verify_mode = False, ssl.CERT_NONE
    return own


def connect(target):
    host, _, port = target.rpartition(":")
    bare = socket.create_connection((host, int(port)), timeout=20)
    bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A context for each: nothing is resumed.
    return context().wrap_socket(bare, server_hostname=host, do_handshake_on_connect=False)


def ask(stream, target, path):
    head = f"GET {path} HTTP/1.1\r\nHost: {target}\r\nAuthorization: Bearer sk-phantom-0123456789abcdef\r\n\r\n"
    stream.sendall(head.encode())


def read_until(stream, word, whole=b""):
    while word not in whole:
        piece = stream.recv(65536)
        if not piece:
            raise SystemExit(f"closed after {whole!r}")
        whole += piece
    return whole


def once(target):
    """Handshake, first answer, next answer, first event: in milliseconds."""
    begun = NOW()
    stream = connect(target)
    stream.do_handshake()
    shaken = NOW()
    ask(stream, target, "/json")
    read_until(stream, b'"end"}')
    answered = NOW()
    ask(stream, target, "/json")
    read_until(stream, b'"end"}')
    again = NOW()
    ask(stream, target, "/events")
    # The head may come before; what counts is the first event.
    whole = read_until(stream, b"data: first")
    event = NOW()
    # On a busy machine both may come at once.
    read_until(stream, b"data: last", whole)
    last = NOW()
    stream.close()
    marks = [begun, shaken, answered, again, event, last]
    return [1000 * (to - since) for since, to in zip(marks, marks[1:])]


def measure(rounds, targets):
    pairs = [target.split("=", 1) for target in targets]
    for _, target in pairs:
        once(target)
    found = {name: [] for name, _ in pairs}
    for number in range(rounds):
        for name, target in pairs[number % len(pairs):] + pairs[:number % len(pairs)]:
            found[name].append(once(target))
    middle = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}
    print(f"{'':12}{'handshake':>12}{'+ 1st answer':>14}{'2nd answer':>12}{'1st event':>12}{'last event':>12}   (ms)")
    for name, (shake, first, second, event, last) in middle.items():
        print(f"{name:12}{shake:12.3f}{shake + first:14.3f}{second:12.3f}{event:12.3f}{last:12.3f}")
    print()
    direct, own = middle["direct"], middle["keyward"]
    print(f"a new TLS connection, more than direct     {own[0] - direct[0]:.2f} ms; with its first answer {sum(own[:2]) - sum(direct[:2]):.2f} ms   (goal: at most 1 ms)")
    print(f"first event, later than direct             {own[3] - direct[3]:.2f} ms   (goal: at most 0.5 ms)")


def first(rounds, name, serve_one, roots):
    columns = []
    for number in range(rounds):
        port = 9700 + number % 200
        at, target = f"127.0.0.1:{port}", f"{name}:{port}"
        proxy = subprocess.Popen([serve_one, at, name, "127.0.0.1:9443", roots, "swap"], stdin=subprocess.PIPE)
        while True:
            try:
                # Nothing is sent: no certificate is made for it.
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.002)
        time.sleep(0.05)
        columns.append([*once(target)[:2], *once(target)[:2], *once(f"{name}:9443")[:2]])
        proxy.stdin.close()
        proxy.wait()
    shake, answer, shake_again, answer_again, direct, direct_answer = [statistics.median(column) for column in zip(*columns)]
    print(f"first                 handshake {shake:.2f} ms, with an answer {shake + answer:.2f} ms")
    print(f"second                handshake {shake_again:.2f} ms, with an answer {shake_again + answer_again:.2f} ms")
    print(f"direct                handshake {direct:.2f} ms, with an answer {direct + direct_answer:.2f} ms")


async def serve(port):
    async def talk(reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                for event in (b"first", b"last"):
                    # The head is on its way alone, and so is each event.
                    await writer.drain()
                    await asyncio.sleep(0.002)
                    text = b"data: " + event + b"\n\n"
                    writer.write(b"%x\r\n%s\r\n" % (len(text), text))
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port)
    await server.serve_forever()


match sys.argv[1:]:
    case ["serve", port]:
        asyncio.run(serve(int(port)))
    case ["measure", rounds, *targets]:
        measure(int(rounds), targets)
    case ["first", rounds, name, serve_one, roots]:
        first(int(rounds), name, serve_one, roots)
    case _:
        sys.exit(__doc__)

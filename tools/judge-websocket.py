"""WebSocket cases for tools/judge-network, by the library `websockets` on both sides. What is expected is what happens without a proxy between.

judge-websocket.py serve PORT CERTIFICATE KEY
judge-websocket.py judge URL
"""
import asyncio, os, ssl, sys
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

LARGEST = 16 << 20


async def echo(socket):
    try:
        async for message in socket:
            if message == "close":
                await socket.close(4321, "as asked")
            elif message == "vanish":
                socket.transport.abort()
            elif message == "pieces":
                await socket.send(piece for piece in ("a", "", "b" * 70000, "c"))
            else:
                await socket.send(message)
    except ConnectionClosed:
        pass


async def served(port, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with serve(echo, "127.0.0.1", port, ssl=context, max_size=LARGEST * 2):
        await asyncio.get_running_loop().create_future()


async def judge(url):
    count = 0

    def holds(what, is_so):
        nonlocal count
        if not is_so:
            sys.exit(f"{what}: not as expected")
        count += 1

    def opened(**more):
        return connect(url, max_size=LARGEST * 2, open_timeout=60, **more)

    for compression in (None, "deflate"):
        async with opened(compression=compression) as socket:
            for size in (0, 1, 125, 126, 127, 65535, 65536, 65537, 1 << 20, LARGEST):
                for message in ("é" * (size // 2), os.urandom(size)):
                    await socket.send(message)
                    holds(f"echo of {size}", await socket.recv() == message)
            for pieces in (["a", "b"], ["", "", ""], ["x" * 100000] * 3, [b"1", b"", b"2"]):
                await socket.send(iter(pieces))
                holds("a message in pieces", await socket.recv() == pieces[0][:0].join(pieces))
            await socket.send("pieces")
            holds("an answer in pieces", await socket.recv() == "a" + "b" * 70000 + "c")
            for load in (b"", b"x", os.urandom(125)):
                await asyncio.wait_for(await socket.ping(load), 30)
                holds("a pong", True)
            await socket.pong(b"unasked")
            for number in range(2000):
                await socket.send(str(number))
            holds("many small ones, in order", [await socket.recv() for _ in range(2000)] == [str(number) for number in range(2000)])
    for code in (1000, 1001, 1008, 1011, 3000, 4999):
        async with opened() as socket:
            await socket.close(code, "why")
            holds(f"close with {code}", (socket.close_code, socket.close_reason) == (code, "why"))
    async with opened() as socket:
        await socket.send("close")
        try:
            await socket.recv()
        except ConnectionClosed as closed:
            holds("closed by the server", (closed.rcvd.code, closed.rcvd.reason) == (4321, "as asked"))
    async with opened() as socket:
        await socket.send("vanish")
        try:
            await socket.recv()
        except ConnectionClosedError as closed:
            holds("a server that vanishes", closed.rcvd is None)
    # What is not allowed reaches the server as it is, and its answer comes back.
    unsound = {
        "a reserved opcode": (bytes([0x83, 0x80, 0, 0, 0, 0]), 1002),
        "a reserved bit": (bytes([0xc1, 0x80, 0, 0, 0, 0]), 1002),
        "a frame without a mask": (bytes([0x81, 0x00]), 1002),
        "a ping of 126 bytes": (bytes([0x89, 0xfe, 0, 126, 0, 0, 0, 0]) + bytes(126), 1002),
        "a ping in two": (bytes([0x09, 0x80, 0, 0, 0, 0]), 1002),
        "a continuation of nothing": (bytes([0x80, 0x80, 0, 0, 0, 0]), 1002),
        "text that is not UTF-8": (bytes([0x81, 0x82, 0, 0, 0, 0, 0xc3, 0x28]), 1007),
        "a close of one byte": (bytes([0x88, 0x81, 0, 0, 0, 0, 3]), 1002),
    }
    for what, (raw, code) in unsound.items():
        async with opened(compression=None) as socket:
            socket.transport.write(raw)
            try:
                await asyncio.wait_for(socket.recv(), 30)
            except ConnectionClosed as closed:
                holds(what, closed.rcvd is not None and closed.rcvd.code == code)
    sockets = await asyncio.gather(*(opened() for _ in range(200)))
    await asyncio.gather(*(socket.send(str(number)) for number, socket in enumerate(sockets)))
    answers = await asyncio.gather(*(socket.recv() for socket in sockets))
    holds("200 at once", answers == [str(number) for number in range(200)])
    await asyncio.gather(*(socket.close() for socket in sockets))
    print(f"{count} cases, all as without a proxy")


match sys.argv[1:]:
    case ["serve", port, certificate, key]:
        asyncio.run(served(int(port), certificate, key))
    case ["judge", url]:
        asyncio.run(judge(url))
    case _:
        sys.exit(__doc__)

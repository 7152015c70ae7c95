"""Does some hundreds of calls that make names and prints what each one gave and left behind. Run twice, with and without a warden, it
has to print the same."""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import struct
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NR = {"open": 2, "openat": 257, "creat": 85, "mkdir": 83, "mkdirat": 258, "mknod": 133, "mknodat": 259, "rename": 82,
      "renameat": 264, "renameat2": 316, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "bind": 49, "unshare": 272}
CWD = -100
O_CREAT, O_TMPFILE = os.O_CREAT, os.O_TMPFILE
BASE = os.path.realpath("work")
said = 0


def raw(name, *arguments):
    """One system call; the result, or the name of its error."""
    given = []
    for argument in arguments:
        if isinstance(argument, bytes):
            given.append(ctypes.c_char_p(argument))
        elif isinstance(argument, ctypes.Array):
            given.append(argument)
        else:
            given.append(ctypes.c_long(argument))
    result = libc.syscall(ctypes.c_long(NR[name]), *given)
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]


def describe(path):
    seen = os.lstat(path)
    kind = stat.filemode(seen.st_mode)
    more = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else ""
    if stat.S_ISREG(seen.st_mode) and os.access(path, os.R_OK):
        with open(path, "rb") as file:
            more = repr(file.read()[:20])
    return f"{kind} {seen.st_uid}:{seen.st_gid} n{seen.st_nlink if not stat.S_ISDIR(seen.st_mode) else ''} {more}"


def tree():
    lines = []
    for folder, folders, files in os.walk(BASE):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            lines.append(os.path.relpath(path, BASE)[:40] + " " + describe(path))
    return lines


def remove(path):
    for folder, folders, files in os.walk(path, topdown=False):
        os.chmod(folder, 0o755)
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            os.unlink(inner) if os.path.islink(inner) else os.rmdir(inner)


def fresh():
    """The same small world for every case."""
    os.umask(0o022)
    os.chdir(BASE)
    for folder in ("closed", "still"):
        if os.path.isdir(folder):
            os.chmod(folder, 0o755)
    remove(BASE)
    for folder in ("sub", "sub/deep", "closed", "still", "full", "full/inner", "empty"):
        os.mkdir(folder)
    for name, content in (("file", "content"), ("sub/file", "inner"), ("read-only", "ro"), ("still/file", "s")):
        with open(name, "w") as file:
            file.write(content)
    os.chmod("read-only", 0o444)
    for link, to in (("to-file", "file"), ("to-sub", "sub"), ("dangling", "made-by-link"), ("far", "to-sub/made-far"),
                     ("chain", "dangling"), ("loop", "loop"), ("absolute", BASE + "/made-absolute"), ("slashed", "made-slashed/"),
                     ("to-null", "/dev/null"), ("to-self", "/proc/self/cwd"), ("up", "sub/../made-up"), ("into-missing", "missing/x")):
        os.symlink(to, link)
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.chmod("closed", 0o000)
    os.chmod("still", 0o555)


before = None


def case(label, act):
    """Does one act in a fresh world and prints what it gave and what it changed."""
    global said, before
    if before is None:
        fresh()
        before = tree()
    os.umask(0o022)
    os.chdir(BASE)
    try:
        gave = act()
    except OSError as error:
        gave = "raised " + errno.errorcode[error.errno]
    os.chdir(BASE)
    after = tree()
    changed = ["-" + line for line in before if line not in after] + ["+" + line for line in after if line not in before]
    said += 1
    print(f"{label}: {gave} {changed}", flush=True)
    if changed:
        before = None


def opened(descriptor, offset=0):
    """What a descriptor is; closes it."""
    if isinstance(descriptor, str):
        return descriptor
    seen, flags, of = os.fstat(descriptor), fcntl.fcntl(descriptor, fcntl.F_GETFL), fcntl.fcntl(descriptor, fcntl.F_GETFD)
    wrote = ""
    if stat.S_ISREG(seen.st_mode) and flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_PATH:
        wrote = os.write(descriptor, b"W")
    os.close(descriptor)
    return f"fd{descriptor} {stat.filemode(seen.st_mode)} {seen.st_size} {flags & ~os.O_NOFOLLOW:o} {of} {wrote}"


LONG = b"n" * 255
# Programs outside open it by themselves, so a pipe or a socket of this name is taken out of the tree at once.
OPENED = b".gitignore"
SHAPES = [
    b"new", b"sub/new", b"./new", b"sub/../new", b"sub/deep/../../new", b"sub//new", b"new/", b"new//", b"sub/new/", b"missing/new",
    b"file/new", b"to-sub/new", b"to-file/new", b"dangling", b"dangling/", b"dangling/new", b"chain", b"far", b"absolute", b"slashed",
    b"up", b"into-missing", b"loop", b"loop/new", b"to-file", b"to-sub", b"to-sub/", b"", b"/", b"//", b".", b"..", b"sub/.", b"sub/..",
    b"./", b"file", b"file/", b"sub", b"sub/", b"fifo/", b"socket", b"closed/new", b"still/new", b"still/file", b"read-only",
    LONG, LONG + b"n", b"sub/" + LONG + b"n", b"a/" * 2000 + b"new", b"./" * 2030 + b"new", b"./" * 2046 + b"new", b"./" * 2047 + b"new",
    b"./" * 2050 + b"new", b"x" * 4095, b"x" * 4096, BASE.encode() + b"/new", BASE.encode() + b"/sub/../new", b"/proc/self/cwd/new",
    b"/proc/thread-self/cwd/new", b"to-self/new", b"/proc/self/root" + BASE.encode() + b"/new", b"/proc/self/cwd/to-sub/new",
    b"/proc/self/new", b"/proc/new", b"/new", b"/usr/new", b"/dev/new", b"/tmp/x/y", b"with space", b"\xff\xfe", b"new\n",
    b".hidden", OPENED, b".github", b"/../" + BASE.encode()[1:] + b"/new", b"/proc/1/cwd/new", b"/proc/self/fd/0/new",
    b"/dev/fd/0/new", b"/proc/self/exe/new", b"/proc/mounts/new", b"/proc/net/new",
]

for shape in SHAPES:
    short = shape if len(shape) < 60 else shape[:20] + b"..%d" % len(shape)
    for flags, called in ((os.O_WRONLY, "w"), (os.O_RDWR | os.O_EXCL, "x"), (os.O_RDONLY | os.O_NOFOLLOW, "n")):
        if shape == b"fifo":
            flags |= os.O_NONBLOCK
        case(f"open {called} {short}", lambda: opened(raw("open", shape, O_CREAT | flags, 0o666)))
    case(f"openat {short}", lambda: opened(raw("openat", CWD, shape, O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o640)))
    case(f"creat {short}", lambda: opened(raw("creat", shape, 0o600)))
    case(f"mkdir {short}", lambda: raw("mkdir", shape, 0o777))
    case(f"mkdirat {short}", lambda: raw("mkdirat", CWD, shape, 0o1750))
    if shape != OPENED:
        case(f"mknod {short}", lambda: raw("mknod", shape, stat.S_IFIFO | 0o666, 0))
    case(f"mknodat {short}", lambda: raw("mknodat", CWD, shape, 0o666, 0))
    case(f"symlink {short}", lambda: raw("symlink", b"anywhere", shape))
    case(f"symlinkat {short}", lambda: raw("symlinkat", b"any/where/", CWD, shape))
    case(f"link to {short}", lambda: raw("link", b"file", shape))
    case(f"link from {short}", lambda: raw("link", shape, b"linked"))
    case(f"linkat follow from {short}", lambda: raw("linkat", CWD, shape, CWD, b"linked", 0x400))
    case(f"rename file to {short}", lambda: raw("rename", b"file", shape))
    case(f"rename folder to {short}", lambda: raw("rename", b"full", shape))
    case(f"rename from {short}", lambda: raw("rename", shape, b"moved"))


def bound_to(path, family=1, length=None):
    with socket.socket(socket.AF_UNIX) as own:
        address = struct.pack("H", family) + path
        number = len(address) + 1 if length is None else length
        gave = raw("bind", own.fileno(), ctypes.create_string_buffer(address + bytes(120)), number)
        # Where the way is another one for each process, the address that is kept is the one that was found.
        return gave, own.getsockname() if b"self" not in path else ""


for shape in SHAPES:
    if len(shape) < 100 and shape != OPENED:
        case(f"bind {shape}", lambda: bound_to(shape))

# Flags of open, on everything there is.
FLAGS = {"trunc": os.O_WRONLY | os.O_TRUNC, "append": os.O_RDWR | os.O_APPEND, "excl": os.O_RDWR | os.O_EXCL, "nofollow": os.O_RDWR | os.O_NOFOLLOW,
         "directory": os.O_RDONLY | os.O_DIRECTORY, "path": os.O_PATH, "path-nofollow": os.O_PATH | os.O_NOFOLLOW,
         "path-excl": os.O_PATH | os.O_EXCL, "tmpfile": O_TMPFILE | os.O_RDWR, "cloexec": os.O_RDWR | os.O_CLOEXEC,
         "nonblock": os.O_RDWR | os.O_NONBLOCK, "sync": os.O_WRONLY | os.O_SYNC, "noatime": os.O_RDONLY | os.O_NOATIME,
         "three": 3, "odd": 0x4000_0000, "rdonly": os.O_RDONLY, "wronly-nonblock": os.O_WRONLY | os.O_NONBLOCK}
for name, flags in FLAGS.items():
    for target in ("new", "file", "read-only", "sub", "to-file", "to-sub", "dangling", "loop", "socket", "fifo", "to-null", "/dev/null",
                   "/dev/full", "/proc/self/status", "/proc/self/comm", "/proc/self/fd/0", "/dev/stdin", "/usr/bin/env", "/dev/tty",
                   "/proc/1/comm", "/proc/self/exe", "/proc/version", "closed", "missing/x"):
        if name == "noatime" and target == "/dev/tty":
            continue
        if target == "fifo" and not flags & (os.O_NONBLOCK | os.O_RDWR | os.O_PATH):
            continue
        case(f"open {name} {target}", lambda: opened(raw("openat", CWD, target.encode(), O_CREAT | flags, 0o644)))

# Modes and the umask.
for mask in (0, 0o022, 0o077, 0o777, 0o027):
    for mode in (0, 0o600, 0o666, 0o777, 0o1777, 0o100644):
        def masked(make):
            os.umask(mask)
            return make()
        case(f"umask {mask:o} open {mode:o}", lambda: masked(lambda: opened(raw("openat", CWD, b"new", O_CREAT | os.O_RDWR, mode))))
        case(f"umask {mask:o} mkdir {mode:o}", lambda: masked(lambda: raw("mkdir", b"new", mode)))
        case(f"umask {mask:o} mknod {mode:o}", lambda: masked(lambda: raw("mknod", b"new", mode, 0)))
    case(f"umask {mask:o} bind", lambda: (os.umask(mask), bound_to(b"new"))[1])
for kind in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR, stat.S_IFLNK, 0o170000):
    for device in (0, os.makedev(1, 3)):
        case(f"mknod {kind:o} {device}", lambda: raw("mknodat", CWD, b"new", kind | 0o644, device))

# Renames and links.
PAIRS = [(b"file", b"moved"), (b"file", b"sub/file"), (b"sub", b"full"), (b"sub", b"empty"), (b"full", b"empty"), (b"sub", b"sub/deep/x"),
         (b"full", b"file"), (b"file", b"full"), (b"to-file", b"moved"), (b"dangling", b"moved"), (b"missing", b"moved"), (b"file", b"file"),
         (b"file", b"still/x"), (b"still/file", b"x"), (b"file", b"closed/x"), (b"sub/", b"moved/"), (b"file/", b"moved"), (b".", b"moved"),
         (b"sub", b"."), (b"file", b"/tmp/moved"), (b"file", b"/usr/moved"), (b"fifo", b"moved"), (b"socket", b"moved"), (b"file", b"/dev/null")]
for flags in (0, 1, 2, 3, 4, 8, 0x80):
    for source, target in PAIRS:
        case(f"renameat2 {flags} {source} {target}", lambda: raw("renameat2", CWD, source, CWD, target, flags))
for source, target in PAIRS:
    case(f"renameat {source} {target}", lambda: raw("renameat", CWD, source, CWD, target))
    for flags in (0, 0x400, 0x1000, 0x1400, 1):
        case(f"linkat {flags:x} {source} {target}", lambda: raw("linkat", CWD, source, CWD, target, flags))


def temporary(how):
    descriptor = raw("openat", CWD, b"sub", O_TMPFILE | os.O_RDWR, 0o640)
    os.write(descriptor, b"temporary")
    number = str(descriptor).encode()
    gave = {"proc": lambda: raw("linkat", CWD, b"/proc/self/fd/" + number, CWD, b"named", 0x400),
            "thread": lambda: raw("linkat", CWD, b"/proc/thread-self/fd/" + number, CWD, b"named", 0x400),
            "dev": lambda: raw("linkat", CWD, b"/dev/fd/" + number, CWD, b"named", 0x400),
            "empty": lambda: raw("linkat", descriptor, b"", CWD, b"named", 0x1000),
            "nofollow": lambda: raw("linkat", CWD, b"/proc/self/fd/" + number, CWD, b"named", 0),
            "reopen": lambda: opened(raw("openat", CWD, b"/proc/self/fd/" + number, O_CREAT | os.O_RDWR | os.O_TRUNC, 0))}[how]()
    os.close(descriptor)
    return gave


for how in ("proc", "thread", "dev", "empty", "nofollow", "reopen"):
    case(f"temporary {how}", lambda: temporary(how))

# Folders by descriptor.
for name, flags in (("sub", os.O_RDONLY), ("sub", os.O_PATH), ("file", os.O_RDONLY), ("to-sub", os.O_PATH | os.O_NOFOLLOW), ("still", os.O_PATH),
                    ("closed", os.O_PATH)):
    def by_descriptor(act):
        descriptor = os.open(name, flags)
        try:
            return act(descriptor)
        finally:
            os.close(descriptor)
    for path in (b"new", b"../new", b"deep/new", b"", b".", BASE.encode() + b"/new"):
        label = f"by {name} {flags:o} {path[-9:]}"
        case(f"openat {label}", lambda: by_descriptor(lambda at: opened(raw("openat", at, path, O_CREAT | os.O_RDWR, 0o600))))
        case(f"mkdirat {label}", lambda: by_descriptor(lambda at: raw("mkdirat", at, path, 0o700)))
        case(f"symlinkat {label}", lambda: by_descriptor(lambda at: raw("symlinkat", b"t", at, path)))
        case(f"renameat {label}", lambda: by_descriptor(lambda at: raw("renameat", CWD, b"file", at, path)))
        case(f"linkat {label}", lambda: by_descriptor(lambda at: raw("linkat", CWD, b"file", at, path, 0)))
        case(f"linkat empty {label}", lambda: by_descriptor(lambda at: raw("linkat", at, b"", CWD, b"linked", 0x1000)))
        case(f"proc fd {label}", lambda: by_descriptor(lambda at: raw("mkdir", b"/proc/self/fd/%d/" % at + path.lstrip(b"/"), 0o700)))
for at in (-1, -2, 900, 1 << 31, (1 << 32) + 900):
    case(f"bad descriptor {at}", lambda: (raw("mkdirat", at, b"new", 0o700), raw("openat", at, b"new", O_CREAT, 0o700),
                                          raw("mkdirat", at, BASE.encode() + b"/new", 0o700), raw("symlinkat", b"x", at, b"y")))
for address in (0, 1, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, (1 << 64) - 1):
    wrong = ctypes.c_ulong(address).value - (1 << 64 if address >> 63 else 0)
    case(f"bad address {address:x}", lambda: (raw("open", wrong, O_CREAT, 0o600), raw("mkdir", wrong, 0), raw("rename", wrong, b"x"),
                                              raw("rename", b"file", wrong), raw("symlink", wrong, b"x"), raw("bind", 0, wrong, 16)))


def at_page_end():
    import mmap
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    ctypes.memmove(start + mmap.PAGESIZE - 4, b"new\0", 4)
    first = raw("mkdir", start + mmap.PAGESIZE - 4, 0o700)
    ctypes.memmove(start + mmap.PAGESIZE - 4, b"newx", 4)
    return first, raw("mkdir", start + mmap.PAGESIZE - 4, 0o700)


case("text at the end of a page", at_page_end)


def across_pages():
    import mmap
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ctypes.memmove(start + mmap.PAGESIZE - 2, b"sub/new\0", 8)
    return raw("mkdir", start + mmap.PAGESIZE - 2, 0o700)


case("text across pages", across_pages)


# Folders that are gone, and threads with folders and descriptors of their own.
def in_removed_folder():
    os.chdir("empty")
    os.rmdir("../empty")
    return raw("mkdir", b"new", 0o700), raw("open", b"new", O_CREAT, 0o700), raw("mkdir", b"../new", 0o700), raw("symlink", b"x", b"y")


case("in a removed folder", in_removed_folder)


def in_thread(flag, act):
    gave = []

    def body():
        raw("unshare", flag)
        gave.append(act())
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return gave


def chdir_and_make():
    os.chdir("sub")
    os.umask(0o077)
    return raw("mkdir", b"by-thread", 0o777), opened(raw("open", b"also", O_CREAT | os.O_RDWR, 0o666)), raw("mkdir", b"/proc/thread-self/cwd/x", 0o700)


case("a thread with its own folder", lambda: (in_thread(0x200, chdir_and_make), raw("mkdir", b"by-main", 0o777)))


def descriptor_and_make():
    libc.close_range(3, 0xffff_ffff, 0)
    descriptor = os.open("sub", os.O_RDONLY)
    own = socket.socket(socket.AF_UNIX)
    address = struct.pack("H", 1) + b"by-thread-socket\0"
    gave = raw("mkdirat", descriptor, b"by-thread", 0o777), raw("bind", own.fileno(), ctypes.create_string_buffer(address), len(address))
    own.detach()
    return gave


case("a thread with its own descriptors", lambda: in_thread(0x400, descriptor_and_make))
case("a thread", lambda: in_thread(0, lambda: (raw("mkdir", b"by-thread", 0o777), raw("mkdir", b"/proc/thread-self/cwd/also", 0o700))))


# Sockets.
def bound_long():
    os.mkdir("d" * 60)
    return bound_to(b"d" * 60 + b"/" + b"s" * 46), bound_to(b"d" * 60 + b"/" + b"s" * 47)


case("bind long", bound_long)
for label, path, family, length in (("abstract", b"\0abstract", 1, 11), ("autobind", b"", 1, 2), ("short", b"", 1, 1), ("none", b"", 1, 0),
                                    ("negative", b"new", 1, -1), ("too long", b"new", 1, 129), ("longer than its kind", b"new", 1, 120),
                                    ("other family", b"new", 2, 16), ("no end mark", b"new", 1, 5), ("inner mark", b"new\0x", 1, 8)):
    case(f"bind {label}", lambda: bound_to(path, family, length)[0])


def bound_by_descriptor():
    descriptor = os.open("sub", os.O_PATH)
    return bound_to(b"/proc/self/fd/%d/by-descriptor" % descriptor)[0], os.close(descriptor)


case("bind by descriptor", bound_by_descriptor)


def served():
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("sub/server")
        server.listen()
        client.connect("sub/server")
        client.sendall(b"x")
        peer, _ = server.accept()
        return peer.recv(1), client.getpeername(), peer.getsockname()


case("a server", served)


def inet(family, address):
    with socket.socket(family) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(address)
        own.listen()
        return own.getsockname()[0], own.getsockname()[1] > 0


case("inet", lambda: inet(socket.AF_INET, ("127.0.0.1", 0)))
case("inet closed port", lambda: inet(socket.AF_INET, ("127.0.0.1", 80)))
case("inet no address", lambda: inet(socket.AF_INET, ("192.0.2.1", 0)))
case("inet6", lambda: inet(socket.AF_INET6, ("::1", 0)))
case("bind a file", lambda: (raw("bind", 0, ctypes.create_string_buffer(16), 16), raw("bind", 900, ctypes.create_string_buffer(16), 16)))
case("netlink", lambda: (lambda own: (own.bind((0, 0)), own.close())[0])(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)))


# Pipes with a name, signals, limits.
def rendezvous(flags, other):
    child = os.fork()
    if child == 0:
        descriptor = os.open("fifo", other)
        if other == os.O_WRONLY:
            os.write(descriptor, b"through")
        else:
            os.read(descriptor, 9)
        os._exit(0)
    descriptor = raw("openat", CWD, b"fifo", O_CREAT | flags, 0o600)
    gave = os.read(descriptor, 9) if flags == os.O_RDONLY else os.write(descriptor, b"through")
    os.close(descriptor)
    return gave, os.waitpid(child, 0)[1]


case("pipe to read", lambda: rendezvous(os.O_RDONLY, os.O_WRONLY))
case("pipe to write", lambda: rendezvous(os.O_WRONLY, os.O_RDONLY))


def interrupted(restart):
    heard = []
    signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
    signal.siginterrupt(signal.SIGALRM, not restart)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    if restart:
        if os.fork() == 0:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            import time
            time.sleep(1)
            os.close(os.open("fifo", os.O_RDONLY))
            os._exit(0)
    gave = opened(raw("openat", CWD, b"fifo", O_CREAT | os.O_WRONLY, 0o600))
    if restart:
        os.wait()
    return gave, heard


case("a signal while a pipe waits", lambda: interrupted(False))
case("a signal that lets the call go on", lambda: interrupted(True))


def killed_while_waiting():
    child = os.fork()
    if child == 0:
        raw("openat", CWD, b"fifo", O_CREAT | os.O_WRONLY, 0o600)
        os._exit(0)
    import time
    time.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1], raw("mkdir", b"new", 0o700)


case("a deadly signal while a pipe waits", killed_while_waiting)


def limited(what, value, act):
    child = os.fork()
    if child == 0:
        resource.setrlimit(what, (value, value))
        gave = act()
        os.write(1, f"  limited: {gave}\n".encode())
        os._exit(0)
    return os.waitpid(child, 0)[1]


case("no descriptors left", lambda: limited(resource.RLIMIT_NOFILE, 3, lambda: (raw("open", b"new", O_CREAT | os.O_RDWR, 0o600),
                                                                                raw("mkdir", b"folder", 0o700))))
case("no bytes left", lambda: limited(resource.RLIMIT_FSIZE, 0, lambda: (raw("open", b"new", O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600),
                                                                         raw("open", b"file", O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600))))


def closed_to_others():
    child = os.fork()
    if child == 0:
        libc.prctl(4, 0, 0, 0, 0)
        descriptor = os.open("sub", os.O_RDONLY)
        gave = (raw("mkdir", b"new", 0o700), opened(raw("open", b"also", O_CREAT | os.O_RDWR, 0o600)), raw("mkdirat", descriptor, b"x", 0o700),
                raw("mkdir", b"/proc/self/cwd/y", 0o700), bound_to(b"s"))
        os.write(1, f"  closed: {gave}\n".encode())
        os._exit(0)
    return os.waitpid(child, 0)[1]


case("a process that closed itself", closed_to_others)


def look_into_closed():
    """What a process that closed itself has is closed to its neighbours, whoever acts for them."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(4, 0, 0, 0, 0)
        os.chdir("sub")
        descriptor = os.open("deep", os.O_RDONLY)
        os.dup2(descriptor, 77)
        os.write(told, b"x")
        signal.pause()
    os.read(ready, 1)
    gave = (raw("mkdir", b"/proc/%d/cwd/new" % child, 0o700), raw("mkdir", b"/proc/%d/fd/77/new" % child, 0o700),
            opened(raw("open", b"/proc/%d/environ" % child, O_CREAT, 0)), raw("link", b"/proc/%d/exe" % child, b"linked"))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    return gave


case("a neighbour that closed itself", look_into_closed)
for folder in ("sub", "."):
    case(f"many in {folder}", lambda: [raw("mkdir", f"{folder}/many-{n}".encode(), 0o700) for n in range(40)].count(0))
print(f"{said} cases")

"""How long a typed key takes to be echoed: through Keyward's terminal and through a plain PTY relay (script), interleaved.

   keystroke.py ROUNDS KEYWARD…
"""
import os, pty, statistics, subprocess, sys, time, tty

def open_terminal(command):
    main, peer = pty.openpty()
    tty.setraw(peer)
    child = subprocess.Popen(command, stdin=peer, stdout=peer, stderr=peer, start_new_session=True)
    os.close(peer)
    return main, child

def key(main):
    start = time.perf_counter_ns()
    os.write(main, b"x")
    while b"x" not in os.read(main, 4096):
        pass
    return (time.perf_counter_ns() - start) / 1000

rounds = int(sys.argv[1])
shown = "stty raw -echo; printf ready; exec cat"
relay, relayed = open_terminal(["script", "-qfc", f"sh -c '{shown}'", "/dev/null"])
ours, caged = open_terminal([*sys.argv[2:], "run", "--", "sh", "-c", shown])
for main in (relay, ours):
    seen = b""
    while b"ready" not in seen:
        seen += os.read(main, 4096)
time.sleep(0.3)
plain, through = [], []
for _ in range(rounds):
    plain.append(key(relay))
    through.append(key(ours))
    time.sleep(0.002)
relayed.kill()
caged.kill()
a, b = statistics.median(plain), statistics.median(through)
print(f"plain relay {a:.0f} µs, keyward {b:.0f} µs (medians): {b / a:.2f}")

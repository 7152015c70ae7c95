"""A scheduler that never holds the key: it starts a worker that does, and gives it work.

    python3 scheduler.py WAY WORKER...

WAY is `fd` or `token`. Each line on standard input is a job; the worker's answer goes to standard output.
"""

import subprocess
import sys

way, worker = sys.argv[1], sys.argv[2:]
command = ["keyward", "run", "--secret", f"signing-key={way}", "--", *worker]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
    for job in sys.stdin:
        process.stdin.write(job)
        print(process.stdout.readline(), end="", flush=True)
sys.exit(process.returncode)

"""The tests' own counterpart of a user's service: python3 service.py MODE KEY-FILE [CERTIFICATE KEY]

Prints its port, and then a line of JSON for each request. Signatures are verified with Python's own hmac.
"""
import hmac, http.server, json, os, ssl, sys, time

MODE, KEY = sys.argv[1], open(sys.argv[2], "rb").read().strip()


def signature(body, when, key=KEY):
    return f"t={when},v1=" + hmac.new(key, f"{when}.".encode() + body, "sha256").hexdigest()


class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers["Keyward-Signature"]
        when = given.partition(",")[0][2:]
        said = {"verified": hmac.compare_digest(given, signature(body, when)), "fresh": abs(time.time() - int(when)) < 60,
                "path": self.path, "headers": dict(self.headers), "body": json.loads(body)}
        print(json.dumps(said), flush=True)
        self.respond(said["body"])

    def do_GET(self):
        print(json.dumps({"got": self.path}), flush=True)
        self.send(200, b"")

    def respond(self, asked):
        answer = {"v": 1, "token": asked["token"], "answer": "deny" if MODE == "deny" else "allow"}
        now = int(time.time())
        if MODE == "wait":
            # A person thinks.
            while not os.path.exists(sys.argv[2] + ".decided"):
                time.sleep(0.05)
        if MODE == "foreign":
            answer["token"] = "A" * 43
        if MODE == "version":
            answer["v"] = 2
        body = json.dumps(answer).encode()
        if MODE in ("allow", "deny", "wait", "foreign", "version"):
            self.send(200, body, signature(body, now))
        elif MODE == "unsigned":
            self.send(200, body)
        elif MODE == "forged":
            self.send(200, body, signature(body, now, b"another key of some length"))
        elif MODE == "old":
            self.send(200, body, signature(body, now - 3600))
        elif MODE == "altered":
            self.send(200, body.replace(b"allow", b"deny"), signature(body, now))
        elif MODE == "mirror":
            # What came is sent back with its own good signature.
            raw = json.dumps(asked, separators=(",", ":"), ensure_ascii=False).encode()
            self.send(200, raw, self.headers["Keyward-Signature"])
        elif MODE == "accepted":
            self.send(202, b"")
        elif MODE == "broken":
            self.send(500, body, signature(body, now))
        elif MODE == "garbage":
            self.send(200, b"yes", signature(b"yes", now))
        elif MODE.startswith("redirect:"):
            self.send_response(307)
            self.send_header("Location", MODE.partition(":")[2])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif MODE == "flood":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"x" * 65536)
        elif MODE == "hang":
            time.sleep(100000)

    def send(self, status, body, signed=None):
        self.send_response(status)
        if signed:
            self.send_header("Keyward-Signature", signed)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()

"""A shim of ClickHouse's interface by HTTP in front of its engine in this process (chdb). It is no ClickHouse server."""
import http.server
import sys
import urllib.parse

packages, port, store = sys.argv[1:4]
sys.path.insert(0, packages)
import zstandard
from chdb import session

engine = session.Session(store)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "zstd":
            body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        options = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        text = body.decode()
        query = options.pop("query", None)
        if query is not None:
            insert, form = query.rsplit(" FORMAT ", 1)
            said = ", ".join(f"{name} = '{value}'" for name, value in options.items())
            text = f"{insert} SETTINGS {said} FORMAT {form}\n{text}"
        try:
            status, answer = 200, engine.query(text, "TSV").bytes()
        except Exception as error:
            status, answer = 400 if "Cannot parse" in str(error) else 500, str(error).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.send_header("x-shim", "chdb behind a shim, no ClickHouse server")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()

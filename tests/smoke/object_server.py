"""An S3-compatible server and a web server of one folder of objects, with latency and with all that goes wrong; the
sources of credentials of a machine of EC2 and of single sign-on; and the listings of a hub."""

import hashlib
import hmac
import http.server
import json
import random
import re
import threading
import time
import urllib.parse
from xml.sax import saxutils

KEY, SECRET, REGION = "AKIATEST", "s3cr3t/with+signs", "eu-test-1"
SESSION_TOKEN = "session/of+metadata"
SSO_TOKEN, SSO_REFRESH, SSO_SECRET = "renewed bearer", "refresh once", "client secret"
SSO_CONFIG = """[sso-session people]
sso_region = eu-test-1
sso_start_url = https://people.example/start
[default]
sso_session = people
sso_account_id = 123456789012
sso_role_name = train
"""


def write_sso_home(home, registration="2100-01-01T00:00:00Z"):
    """~/.aws with an expired token of `aws sso login`; returns the file of the token."""
    cache = home / ".aws/sso/cache"
    cache.mkdir(parents=True)
    (home / ".aws/config").write_text(SSO_CONFIG)
    token = cache / (hashlib.sha1(b"people").hexdigest() + ".json")
    token.write_text(json.dumps({
        "startUrl": "https://people.example/start", "region": REGION, "accessToken": "expired bearer",
        "expiresAt": "2020-01-01T00:00:00Z", "clientId": "client", "clientSecret": SSO_SECRET,
        "registrationExpiresAt": registration, "refreshToken": SSO_REFRESH}))
    return token


def signature(handler, path, query):
    """The signature that the request must have, by the published algorithm."""
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\S+?)/(\d{8})/(\S+?)/s3/aws4_request,SignedHeaders=(\S+?),"
                         r"Signature=(\w{64})", handler.headers.get("Authorization") or "")
    if not found or found[1] != KEY or found[3] != REGION:
        return None, "none"
    lines = "".join(f"{name}:{handler.headers[name]}\n" for name in found[4].split(";"))
    canonical = "\n".join(["GET", path, query, lines, found[4], handler.headers["x-amz-content-sha256"]])
    time_text = handler.headers["x-amz-date"]
    scope = f"{found[2]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", time_text, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (found[2], REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest(), found[5]


class Server(http.server.ThreadingHTTPServer):
    """`objects`: bytes by "bucket/key". Without `signed` it is a web server of the same paths, and the hub of datasets
    "datasets/ORGANISATION/NAME/resolve/REVISION/...". With `metadata_environment` it is the instance metadata too, whose
    keys come with a session token, and with `sso_environment` the servers of single sign-on, each of whose refresh
    tokens is used once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, objects, signed=True, latency=0.0, failures=0.0, stalls=0.0, cuts=0.0, seed=1):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.signed, self.latency = objects, signed, latency
        self.failures, self.stalls, self.cuts = failures, stalls, cuts
        self.draw, self.lock = random.Random(seed), threading.Lock()
        self.log, self.refused, self.stalled = [], 0, 0
        self.session_tokens, self.authorizations = set(), set()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.environment = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                            "AWS_REGION": REGION, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self.metadata_environment = {name: value for name, value in self.environment.items() if "KEY" not in name}
        self.sso_environment = dict(self.metadata_environment)
        self.tokens_created = []
        self.metadata_environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = self.url
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that was killed

    def fate(self):
        with self.lock:
            draw = self.draw.random()
        for name in ("failures", "stalls", "cuts"):
            if draw < getattr(self, name):
                return name
            draw -= getattr(self, name)
        return "answer"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # noqa: N802
        server = self.server
        path, _, query = self.path.partition("?")
        with server.lock:
            server.log.append((self.path, self.headers.get("Range")))
            server.session_tokens.add(self.headers.get("x-amz-security-token"))
            server.authorizations.add(self.headers.get("Authorization"))
        for start, answer in (("/latest/", self.send_metadata), ("/federation/", self.send_sso_keys),
                              ("/api/datasets/", self.send_hub_listing)):
            if path.startswith(start):
                answer(path)
                return
        if server.signed:
            wanted, given = signature(self, path, query)
            if wanted != given:
                with server.lock:
                    server.refused += 1
                self.reply(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
                return
        time.sleep(server.latency)
        fate = server.fate()
        if fate == "failures":
            self.reply(503, b"<Error><Code>SlowDown</Code></Error>")
        elif query:
            self.list(urllib.parse.unquote(path)[1:], dict(urllib.parse.parse_qsl(query)))
        else:
            self.send_object(server.objects.get(urllib.parse.unquote(path)[1:]), fate)

    def do_PUT(self):  # noqa: N802
        self.reply(200 if self.path == "/latest/api/token" else 404, b"metadata token")

    def do_POST(self):  # noqa: N802
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            created = self.server.tokens_created
            wanted = {"grantType": "refresh_token", "clientId": "client", "clientSecret": SSO_SECRET,
                      "refreshToken": f"refresh {len(created)}" if created else SSO_REFRESH}
            if self.path != "/token" or request != wanted:
                self.reply(400, json.dumps({"error": "invalid_grant"}).encode())
                return
            created.append(request)
            body = {"accessToken": SSO_TOKEN, "expiresIn": 28800, "refreshToken": f"refresh {len(created)}",
                    "tokenType": "Bearer"}
        self.reply(200, json.dumps(body).encode(), Content_Type="application/json")

    def send_sso_keys(self, _):
        keys = {"accessKeyId": KEY, "secretAccessKey": SECRET, "sessionToken": SESSION_TOKEN,
                "expiration": int((time.time() + 3600) * 1000)}
        good = self.headers.get("x-amz-sso_bearer_token") == SSO_TOKEN
        self.reply(200 if good else 401, json.dumps({"roleCredentials": keys} if good else {"message": "expired"}).encode(),
                   Content_Type="application/json")

    def send_hub_listing(self, path):
        start = path[len("/api/"):].replace("/revision/", "/resolve/") + "/"
        names = [name[len(start):] for name in self.server.objects if name.startswith(start)]
        self.reply(200 if names else 404, json.dumps({"siblings": [{"rfilename": name} for name in names]}).encode())

    def send_metadata(self, path):
        roles = "/latest/meta-data/iam/security-credentials/"
        expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        keys = {"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": SESSION_TOKEN,
                "Expiration": expiration}
        pages = {roles: b"role", roles + "role": json.dumps(keys).encode()}
        if self.headers.get("X-aws-ec2-metadata-token") == "metadata token" and path in pages:
            self.reply(200, pages[path])
        else:
            self.reply(401)

    def list(self, bucket, query):
        start, delimiter = f"{bucket}/{query['prefix']}", query.get("delimiter")
        names = sorted(name for name in self.server.objects
                       if name.startswith(start) and not (delimiter and delimiter in name[len(start):]))
        first = int(query.get("continuation-token", 0))
        page = names[first:first + 3]
        entries = "".join(f"<Contents><Key>{saxutils.escape(name.partition('/')[2])}</Key>"
                          f"<ETag>&quot;{etag_of(self.server.objects[name])}&quot;</ETag>"
                          f"<Size>{len(self.server.objects[name])}</Size></Contents>" for name in page)
        more = first + 3 < len(names)
        token = f"<NextContinuationToken>{first + 3}</NextContinuationToken>" if more else ""
        self.reply(200, f"<?xml version='1.0'?><ListBucketResult xmlns='s3'><IsTruncated>{str(more).lower()}</IsTruncated>"
                   f"{entries}{token}</ListBucketResult>".encode())

    def send_object(self, body, fate):
        if body is None:
            self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        etag = f'"{etag_of(body)}"'
        if self.headers.get("If-Match", etag) != etag:
            self.reply(412)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        first, last = (int(asked[1]), min(int(asked[2]), len(body) - 1)) if asked else (0, len(body) - 1)
        part = body[first:last + 1]
        self.send_response(206 if asked else 200)
        for name, value in {"ETag": etag, "Content-Length": str(len(part)),
                            "Content-Range": f"bytes {first}-{last}/{len(body)}"}.items():
            self.send_header(name, value)
        self.end_headers()
        if fate == "answer" or len(part) < 2:
            self.wfile.write(part)
            return
        self.wfile.write(part[:len(part) // 2])
        self.wfile.flush()
        if fate == "stalls":
            with self.server.lock:
                self.server.stalled += 1
            time.sleep(30)
        self.close_connection = True
        self.connection.close()


ETAGS = {}


def etag_of(body):
    known = ETAGS.get(id(body))
    if known is None or known[0] is not body:
        known = ETAGS[id(body)] = (body, hashlib.md5(body).hexdigest())
    return known[1]
